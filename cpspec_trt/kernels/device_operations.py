"""Operations over device memory that are bound once and then enqueued without further arguments."""

from __future__ import annotations

from ctypes import Structure, byref

from cpspec_trt.devices.device import Device
from cpspec_trt.kernels import device_library
from cpspec_trt.kernels.device_library import StreamLibrary


class BoundOperation:
    """One operation with all its arguments."""

    __slots__ = ("_arguments", "_device", "_library", "_name")

    def __init__(self, library: StreamLibrary, device: Device, name: str, arguments: tuple[object, ...]) -> None:
        self._library = library
        self._device = device
        self._name = name
        # A structure is passed by reference, and the reference keeps it alive.
        self._arguments = tuple(byref(each) if isinstance(each, Structure) else each for each in arguments)

    def enqueue(self) -> None:
        """Put it into the device's stream.

        Raises:
            UnsupportedError: the library does not do this.
            EngineError: the kernel could not be launched.
        """
        before = self._library.launches
        self._library.call(self._name, *self._arguments, stream=self._device.stream)
        self._device.count_kernels(self._library.launches - before)


class DeviceOperations:
    """Binds operations of the CUDA library to one device."""

    def __init__(self, device: Device) -> None:
        """Open the library.

        Raises:
            EngineError: it is not there or does not fit; says how to build it.
        """
        self._device = device
        self._library = device_library.open_device_library()

    @property
    def implementation(self) -> str:
        """What runs."""
        return self._library.implementation

    def _bound(self, name: str, *arguments: object) -> BoundOperation:
        return BoundOperation(self._library, self._device, name, arguments)
