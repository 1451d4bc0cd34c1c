"""The ways in which public training programs are right, each of them clean."""

from __future__ import annotations

from tests.lint.conftest import Check


def test_mask_from_the_command_line_beside_a_local_rank(check: Check) -> None:
    """yolov5's way: --device may set a mask, a launcher's ranks take their index from LOCAL_RANK."""
    check(
        """
        RANK = int(os.getenv("LOCAL_RANK", -1))

        def choose(wanted):
            wanted = str(wanted).strip().lower().replace("cuda:", "")
            if wanted == "cpu":
                os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
            elif wanted:
                os.environ["CUDA_VISIBLE_DEVICES"] = wanted
            if wanted != "cpu" and torch.cuda.is_available():
                return torch.device("cuda:0")
            return torch.device("cpu")

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="")
            options = parser.parse_args()
            device = choose(options.device)
            if RANK != -1:
                torch.cuda.set_device(RANK)
                device = torch.device("cuda", RANK)
                dist.init_process_group(backend="nccl")
            model = nn.Linear(2, 2).to(device)
            if device.type != "cpu" and RANK != -1:
                model = DDP(model, device_ids=[RANK], output_device=RANK)
        """
    )
