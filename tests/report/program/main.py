import os

import torch
from net import Net
from torch.nn.parallel import DistributedDataParallel

LOCAL_RANK = int(os.environ["LOCAL_RANK"])


def main():
    torch.distributed.init_process_group("nccl")

    model = Net(width=64).cuda()
    model = DistributedDataParallel(
        model,
        device_ids=[LOCAL_RANK],
        output_device=LOCAL_RANK,
    )
    model.train()


if __name__ == "__main__":
    main()
