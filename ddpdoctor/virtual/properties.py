"""What torch.cuda.get_device_properties says of a virtual GPU: a data centre card of 2020."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ddpdoctor.virtual.devices import Device

CAPABILITY = (8, 0)
ARCHITECTURES = "sm_80 compute_80"
CUDA_VERSION = "12.6"
CUDA_VERSION_NUMBER = 12060
CUDNN_VERSION = 90501
NCCL_VERSION = (2, 27, 3)


@dataclass(frozen=True, repr=False)
class DeviceUuid:
    """As torch prints it: without NVML's "GPU-"."""

    bytes: bytes

    def __str__(self) -> str:
        return str(UUID(bytes=self.bytes))

    __repr__ = __str__


@dataclass(frozen=True)
class DeviceProperties:
    name: str
    total_memory: int
    uuid: DeviceUuid
    pci_bus_id: int
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    multi_processor_count: int = 108
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65536
    warp_size: int = 32
    L2_cache_size: int = 40 << 20
    clock_rate: int = 1410000
    memory_clock_rate: int = 1512000
    memory_bus_width: int = 5120
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 163 << 10
    shared_memory_per_multiprocessor: int = 164 << 10
    pci_device_id: int = 0
    pci_domain_id: int = 0
    gcnArchName: str = f"sm_{CAPABILITY[0]}{CAPABILITY[1]}"


def properties(device: Device) -> DeviceProperties:
    return DeviceProperties(
        name=device.name,
        total_memory=device.total_bytes,
        uuid=DeviceUuid(UUID(device.uuid.removeprefix("GPU-")).bytes),
        pci_bus_id=bus(device),
    )


def bus(device: Device) -> int:
    """The PCI bus number; NCCL names devices by it."""
    return 0x10 * (device.index + 1) % 256
