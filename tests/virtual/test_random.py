"""Each device draws its own random numbers, apart from the CPU's."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.virtual_gpus(2)


def test_devices_do_not_draw_from_the_cpus_numbers():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    torch.rand(7, device="cuda:1")
    torch.nn.functional.dropout(torch.ones(9, device="cuda:0"))
    torch.ones(5, device="cuda").bernoulli_()
    assert torch.equal(torch.rand(4), expected)


def test_each_device_has_a_stream_of_its_own():
    torch.manual_seed(0)
    first = torch.rand(3, device="cuda:0").tolist()
    assert torch.rand(3, device="cuda:1").tolist() == first
    assert torch.rand(3, device="cuda:0").tolist() != first


def test_a_seed_set_before_cuda_starts_counts():
    torch.cuda.manual_seed_all(5)
    first = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(5)
    assert torch.equal(torch.rand(2, device="cuda"), first)
    assert torch.cuda.initial_seed() == 5


def test_states_can_be_kept_and_put_back():
    states = torch.cuda.get_rng_state_all()
    assert len(states) == 2
    drawn = torch.randn(3, device="cuda:1")
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(torch.randn(3, device="cuda:1"), drawn)
    with torch.random.fork_rng():
        torch.rand(5, device="cuda:1")
    torch.cuda.set_rng_state(states[1], "cuda:1")
    assert torch.equal(torch.randn(3, device="cuda:1"), drawn)


def test_generators_belong_to_a_device():
    generator = torch.Generator("cuda:1").manual_seed(1)
    assert generator.device == torch.device("cuda:1")
    assert isinstance(generator, torch.Generator)
    drawn = torch.rand(2, device="cuda:1", generator=generator)
    assert torch.equal(
        torch.rand(2, device="cuda:1", generator=torch.Generator("cuda").manual_seed(1)), drawn
    )
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.rand(2, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator"):
        torch.rand(2, generator=generator)
