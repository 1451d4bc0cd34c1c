"""What programs ask of torch.cuda, torch.accelerator and of tensors."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.virtual_gpus(2, memory="4GiB")


def test_the_devices():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.current_device() == 0
    properties = torch.cuda.get_device_properties(1)
    assert properties.total_memory == 4 << 30
    assert str(properties.uuid) == "76697274-7561-6c00-0000-000000000001"
    assert torch.cuda.get_device_name(0) == properties.name == "Virtual GPU"
    assert torch.cuda.get_device_capability() == (8, 0)
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.can_device_access_peer(0, 1)
    assert torch.version.cuda
    assert torch.backends.cudnn.is_available()


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="torch.accelerator came with 2.6")
def test_the_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == torch.cuda.current_device() == 1
    torch.accelerator.synchronize()


def test_the_current_device():
    torch.cuda.set_device("cuda:1")
    assert torch.ones(1, device="cuda").device == torch.device("cuda:1")
    assert torch.ones(1).cuda().device.index == 1
    with torch.cuda.device(0):
        assert torch.ones(1).cuda().device.index == 0
    with torch.cuda.device_of(torch.ones(1, device="cuda:0")):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1


def test_each_thread_has_its_own_current_device():
    torch.cuda.set_device(1)
    seen = []

    def body():
        seen.append(torch.cuda.current_device())
        seen.append(torch.ones(1).cuda().device.index)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(30)
    assert seen == [0, 0]
    assert torch.cuda.current_device() == 1


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(2)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device="cuda:2")
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(7)


@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.zeros(2, device=device),
        lambda device: torch.tensor([1.0], device=device),
        lambda device: torch.as_tensor([1.0], device=device),
        lambda device: torch.asarray([1.0], device=device),
        lambda device: torch.arange(3, device=device),
        lambda device: torch.full((2,), 1, device=device),
        lambda device: torch.randn(2, device=device),
        lambda device: torch.randperm(4, device=device),
        lambda device: torch.eye(2, device=device),
        lambda device: torch.normal(0.0, 1.0, (2,), device=device),
        lambda device: torch.zeros_like(torch.ones(2), device=device),
        lambda device: torch.ones(2).new_zeros(3, device=device),
        lambda device: torch.ones(2).new_tensor([3.0], device=device),
        lambda device: torch.ones(2).to(device),
        lambda device: torch.ones(2).to(device=device, dtype=torch.float64),
        lambda device: torch.ones(2).to(torch.ones(1, device=device)),
        lambda device: torch.ones(2).type_as(torch.ones(1, device=device)),
        lambda device: torch.ones(2, device=device).new_tensor([1.0]),
        lambda device: torch.ones(2).new_tensor([1.0], device=device),
        lambda device: torch.ones(2).cuda(device),
        lambda device: torch.ones(2).to(device.index),
        lambda device: nn.Linear(2, 2, device=device).weight,
        lambda device: nn.Linear(2, 2).to(device).weight,
        lambda device: nn.Linear(2, 2).cuda(device.index).bias,
        lambda device: nn.Linear(2, 2, device="meta").to_empty(device=device).weight,
        lambda device: torch.fft.fftfreq(4, device=device),
        lambda device: torch.nested.nested_tensor([torch.ones(1)], device=device),
        lambda device: torch.sparse_coo_tensor([[0]], [1.0], device=device),
        lambda device: torch.eye(2).to_sparse().to(device),
        lambda device: copy.deepcopy(torch.ones(2, device=device)),
        lambda device: pickle.loads(pickle.dumps(torch.ones(2, device=device))),
        lambda device: torch.ones(4, device=device)[1:].view(3, 1).t(),
        lambda device: torch.ones(2, device=device).detach().clone(),
        lambda device: torch.vmap(torch.sin)(torch.ones(2, 2, device=device)),
        lambda device: torch.func.grad(lambda x: x.square().sum())(torch.ones(2, device=device)),
        lambda device: torch.stack([torch.ones(2, device=device)] * 2),
        lambda device: torch.ones(2, 2, device=device).sum(),
        lambda device: torch.linalg.svd(torch.ones(2, 2, device=device)).S,
        lambda device: torch.ones(3, device=device).sort().indices,
        lambda device: torch.empty(0).set_(torch.ones(2, device=device).untyped_storage()),
    ],
)
def test_tensors_are_where_they_were_asked_for(make):
    device = torch.device("cuda", 1)
    tensor = make(device)
    assert tensor.device == device
    assert tensor.is_cuda
    assert tensor.get_device() == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda on: on.cpu(),
        lambda on: on.to("cpu"),
        lambda on: on.new_zeros(2, device="cpu"),
        lambda on: on.new_tensor([1.0], device="cpu"),
        lambda on: torch.zeros_like(on, device="cpu"),
        lambda on: on.type("torch.FloatTensor"),
        lambda on: torch.from_numpy(on.cpu().numpy()),
        lambda on: torch.Tensor(2),
        lambda on: torch.FloatTensor([1.0]),
        lambda on: torch.tensor(1.0),
    ],
)
def test_the_cpu_is_a_place_too_and_does_not_mix(make):
    on = torch.ones(2, device="cuda")
    tensor = make(on)
    assert tensor.device == torch.device("cpu")
    assert not tensor.is_cuda
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([on, tensor.reshape(-1)])


def test_default_devices():
    with torch.device("cuda:1"):
        assert nn.Linear(2, 2).weight.device == torch.device("cuda:1")
        assert torch.tensor(1.0).device.index == 1
    torch.set_default_device("cuda:1")
    try:
        assert torch.zeros(1).device == torch.get_default_device() == torch.device("cuda:1")
        assert torch.zeros(1, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.zeros(1).device.type == "cpu"


def test_legacy_types():
    x = torch.cuda.FloatTensor([1.0, 2.0])
    assert x.device == torch.device("cuda:0")
    assert x.type() == "torch.cuda.FloatTensor"
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x, torch.FloatTensor)
    assert x.new(3).is_cuda
    torch.set_default_tensor_type(torch.cuda.DoubleTensor)
    try:
        made = torch.zeros(2)
        assert made.is_cuda
        assert made.dtype is torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.zeros(2).is_cuda


def test_an_integer_is_a_cuda_device():
    assert torch.device(1) == torch.device("cuda:1")
    assert isinstance(torch.device(1), torch.device)
    assert nn.Linear(2, 2).to(1).weight.device.index == 1


def test_streams_and_events():
    stream = torch.cuda.Stream(device=1)
    assert stream.device == torch.device("cuda:1")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream(1) == stream
        start.record()
        torch.ones(8, device="cuda:1").sum()
        end.record()
    torch.cuda.synchronize(1)
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    assert start.elapsed_time(end) >= 0
    assert end.query()
    stream.wait_stream(torch.cuda.current_stream())
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def test_gradients_come_back_to_where_the_tensor_was():
    x = torch.ones(3, requires_grad=True)
    (x.to("cuda:1") * 2).sum().backward()
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [2, 2, 2]
    y = torch.zeros(3, device="cuda:0")
    z = torch.ones(3, device="cuda:1", requires_grad=True)
    y.copy_(z * 3)
    y.sum().backward()
    assert z.grad.device == torch.device("cuda:1")


def test_pinned_memory_and_numpy():
    x = torch.ones(2).pin_memory()
    assert x.is_pinned()
    assert not x.is_cuda
    assert not x.cuda().is_pinned()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.cuda().numpy()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()


def test_it_says_where_it_is_when_printed():
    assert repr(torch.ones(1, device="cuda:1")) == "tensor([1.], device='cuda:1')"


def test_packed_sequences_keep_their_lengths_on_the_cpu():
    rnn = nn.LSTM(2, 3, batch_first=True).cuda()
    packed = nn.utils.rnn.pack_padded_sequence(
        torch.ones(2, 3, 2).cuda(), torch.tensor([3, 2]), batch_first=True
    )
    out, (hidden, _) = rnn(packed)
    assert out.data.is_cuda
    assert hidden.is_cuda
    assert not out.batch_sizes.is_cuda


def test_data_parallel():
    model = nn.DataParallel(nn.Linear(4, 3).cuda(), device_ids=[0, 1])
    out = model(torch.ones(6, 4, device="cuda"))
    out.sum().backward()
    assert out.device == torch.device("cuda:0")
    assert model.module.weight.grad.tolist() == [[6.0] * 4] * 3


def test_marks_and_profiles_for_a_gpu_that_is_not_there(capfd):
    x = torch.ones(2, 2, device="cuda")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile, torch.cuda.nvtx.range("mm"):
        x @ x
    assert any("mm" in event.key for event in profile.key_averages())
    assert "Failed to record CUDA event" not in capfd.readouterr().err


def test_lazy_modules_and_lengths_on_the_cpu():
    assert nn.LazyLinear(3).cuda()(torch.ones(1, 2, device="cuda")).is_cuda
    loss = nn.functional.ctc_loss(
        torch.randn(5, 1, 4, device="cuda").log_softmax(-1),
        torch.tensor([[1, 2]], device="cuda"),
        torch.tensor([5]),
        torch.tensor([2]),
    )
    assert loss.is_cuda


def test_dlpack_shares_the_device_and_the_memory():
    torch.cuda.set_device(1)
    x = torch.ones(2, device="cuda:1")
    shared = torch.from_dlpack(x)
    shared.fill_(3)
    assert shared.device.index == 1
    assert x.tolist() == [3, 3]


def test_custom_operations_in_python():
    @torch.library.custom_op("ddpdoctor_tests::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * torch.full((1,), factor, device=x.device)

    assert scale(torch.ones(2, device="cuda:1"), 2.0).device.index == 1


def test_torchscript_finds_the_factories():
    @torch.jit.script
    def scripted(x: torch.Tensor):
        return x + torch.zeros(2, dtype=torch.float32)

    assert scripted(torch.ones(2)).tolist() == [1, 1]


def test_hooks_custom_functions_and_checkpointing():
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append((gradient.device.index, ctx.saved_tensors[0].device.index))
            return gradient * 2

    x = torch.ones(2, device="cuda:1", requires_grad=True)
    x.register_hook(lambda gradient: seen.append(gradient.device.index))
    Double.apply(x).sum().backward()
    assert seen == [(1, 1), 1]
    checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
    assert seen == [(1, 1), 1, 1]
    assert x.grad.device.index == 1
