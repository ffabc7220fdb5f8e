#include "support/host_face.h"

#include <algorithm>
#include <utility>

namespace stretto::test {
namespace {

class Carried final : public Request {
 public:
  Carried(Backend& backend, Tensor host, Buffer in, Buffer out)
      : backend_(backend), host_(host), in_(std::move(in)), out_(std::move(out)) {}
  void follow(RequestPtr inner) { inner_ = std::move(inner); }
  void wait() override {
    if (inner_) inner_->wait();
    if (!host_.none() && host_.bytes() > 0) {
      backend_.copy_to_host(host_.data(), {out_.data(), host_.dtype(), host_.shape()});
    }
    backend_.synchronize();
  }
  bool done() override { return !inner_ || inner_->done(); }

 private:
  Backend& backend_;
  Tensor host_;
  Buffer in_, out_;
  RequestPtr inner_;
};

class HostFace final : public Comm {
 public:
  HostFace(std::unique_ptr<Comm> device, Backend& backend)
      : Comm(device->name(), {std::shared_ptr<void>(), &device->monitor()}),
        device_(std::move(device)),
        backend_(backend) {}

  int rank() const override { return device_->rank(); }
  int size() const override { return device_->size(); }
  const char* transport() const override { return device_->transport(); }
  void abort(int code, const std::string& message) override { device_->abort(code, message); }

 protected:
  RequestPtr do_all_reduce(Tensor t, ReduceOp op) override {
    return carry(t, t, {},
                 [&](Tensor out, ConstTensor) { return device_->start_all_reduce(out, op); });
  }
  RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) override {
    return carry(out, out, in,
                 [&](Tensor o, ConstTensor i) { return device_->start_reduce_scatter(o, i, add); });
  }
  RequestPtr do_all_gather(Tensor out, ConstTensor in) override {
    return carry(out, out, in,
                 [&](Tensor o, ConstTensor i) { return device_->start_all_gather(o, i); });
  }
  RequestPtr do_broadcast(Tensor t, int root) override {
    return carry(t, t, {}, [&](Tensor o, ConstTensor) {
      device_->broadcast(o, root);
      return RequestPtr();
    });
  }
  RequestPtr do_send(ConstTensor t, int to, int tag) override {
    return carry({}, {}, t, [&](Tensor, ConstTensor i) { return device_->start_send(i, to, tag); });
  }
  RequestPtr do_recv(Tensor t, int from, int tag) override {
    return carry(t, t, {},
                 [&](Tensor o, ConstTensor) { return device_->start_recv(o, from, tag); });
  }
  RequestPtr do_barrier() override {
    device_->barrier();
    return nullptr;
  }
  std::unique_ptr<Comm> do_split(int colour, int key, const std::string& name) override {
    std::unique_ptr<Comm> part = device_->split(colour, key, name);
    return part ? std::make_unique<HostFace>(std::move(part), backend_) : nullptr;
  }

 private:
  // `result` comes back; what it holds before travels too (sums begin with it).
  template <typename Call>
  RequestPtr carry(Tensor result, ConstTensor out, ConstTensor in, Call&& call) {
    Buffer source = copy_of(in), target = copy_of(out);
    const Tensor o(target.data(), out.dtype(), out.shape());
    const ConstTensor i(source.data(), in.dtype(), in.shape());
    auto request =
        std::make_unique<Carried>(backend_, result, std::move(source), std::move(target));
    request->follow(call(o, i));
    return request;
  }
  Buffer copy_of(ConstTensor t) {
    if (t.none()) return {};
    Buffer buffer = backend_.allocate(std::max<size_t>(1, t.bytes()), "operand");
    if (t.bytes() > 0) backend_.copy_from_host({buffer.data(), t.dtype(), t.shape()}, t.data());
    return buffer;
  }

  std::unique_ptr<Comm> device_;
  Backend& backend_;
};

}  // namespace

std::unique_ptr<Comm> make_host_face(std::unique_ptr<Comm> device, Backend& backend) {
  return std::make_unique<HostFace>(std::move(device), backend);
}

}  // namespace stretto::test
