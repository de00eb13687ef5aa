// Lets a PyTorch without CUDA keep track of the current GPU, which its C++ code asks for.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

thread_local c10::DeviceIndex current_gpu = 0;

struct SimulatedGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device getDevice() const override { return c10::Device(type(), current_gpu); }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_gpu = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  // Streams are simulated in Python; here each device has one.
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, SimulatedGuard);

extern "C" int get_current_gpu() { return current_gpu; }
extern "C" void set_current_gpu(int index) { current_gpu = static_cast<c10::DeviceIndex>(index); }
