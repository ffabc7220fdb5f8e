#include "parallel/device_comm.h"

#include <utility>
#include <vector>

namespace stretto {
namespace {

// A host copy of a device tensor.
class HostCopy {
 public:
  HostCopy(DType type, Shape shape)
      : type_(type), shape_(shape), bytes_(static_cast<size_t>(shape.count()) * dtype_size(type)) {}

  Tensor tensor() { return {bytes_.data(), type_, shape_}; }
  void fetch(Backend& backend, ConstTensor device) {
    if (!bytes_.empty()) backend.copy_to_host(bytes_.data(), device);
  }
  void deliver(Backend& backend, Tensor device) const {
    if (!bytes_.empty()) backend.copy_from_host(device, bytes_.data());
  }

 private:
  DType type_;
  Shape shape_;
  std::vector<char> bytes_;
};

// Holds the host buffers of a started operation; wait() copies the result to the device.
class StagedRequest final : public Request {
 public:
  StagedRequest(Backend& backend, Tensor result, HostCopy copy, HostCopy source = {DType::u8, {0}})
      : backend_(backend), result_(result), copy_(std::move(copy)), source_(std::move(source)) {}

  HostCopy& copy() { return copy_; }
  HostCopy& source() { return source_; }
  void follow(RequestPtr inner) { inner_ = std::move(inner); }

  void wait() override {
    if (inner_) inner_->wait();
    inner_.reset();
    if (result_) copy_.deliver(backend_, result_);
    result_ = {};
  }
  bool done() override { return !inner_ || inner_->done(); }

 private:
  Backend& backend_;
  Tensor result_;  // none for a send, which has no result
  HostCopy copy_;
  HostCopy source_;
  RequestPtr inner_;  // last, so that it is destroyed first: it may still use the buffers
};

class DeviceComm final : public Comm {
 public:
  // `owned` keeps a communicator made by split() alive.
  DeviceComm(Comm& host, Backend& backend, std::unique_ptr<Comm> owned = nullptr)
      : Comm(host.name(), {std::shared_ptr<void>(), &host.monitor()}),
        owned_(std::move(owned)),
        host_(&host),
        backend_(backend) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const char* transport() const override { return host_->transport(); }
  void abort(int exit_code, const std::string& message) override {
    host_->abort(exit_code, message);
  }

 protected:
  RequestPtr do_all_reduce(Tensor t, ReduceOp op) override {
    if (size() == 1) return nullptr;
    auto request = fetch(t, t);
    request->follow(host_->start_all_reduce(request->copy().tensor(), op));
    return request;
  }

  RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) override {
    if (size() == 1) {
      add == Accumulate::no ? copy(out, in) : backend_.add(out, out, in);
      return nullptr;
    }
    auto request = std::make_unique<StagedRequest>(
        backend_, out, HostCopy(out.dtype(), out.shape()), HostCopy(in.dtype(), in.shape()));
    request->source().fetch(backend_, in);
    if (add == Accumulate::yes) request->copy().fetch(backend_, out);
    request->follow(
        host_->start_reduce_scatter(request->copy().tensor(), request->source().tensor(), add));
    return request;
  }

  RequestPtr do_all_gather(Tensor out, ConstTensor in) override {
    if (size() == 1) {
      copy(out, in);
      return nullptr;
    }
    auto request = std::make_unique<StagedRequest>(
        backend_, out, HostCopy(out.dtype(), out.shape()), HostCopy(in.dtype(), in.shape()));
    request->source().fetch(backend_, in);
    request->follow(host_->start_all_gather(request->copy().tensor(), request->source().tensor()));
    return request;
  }

  RequestPtr do_broadcast(Tensor t, int root) override {
    if (size() == 1) return nullptr;
    auto request = fetch(t, t);
    host_->broadcast(request->copy().tensor(), root);
    return request;
  }

  RequestPtr do_send(ConstTensor t, int to, int tag) override {
    auto request = fetch({}, t);
    request->follow(host_->start_send(request->copy().tensor(), to, tag));
    return request;
  }

  RequestPtr do_recv(Tensor t, int from, int tag) override {
    auto request = std::make_unique<StagedRequest>(backend_, t, HostCopy(t.dtype(), t.shape()));
    request->follow(host_->start_recv(request->copy().tensor(), from, tag));
    return request;
  }

  RequestPtr do_barrier() override {
    host_->barrier();
    return nullptr;
  }

  std::unique_ptr<Comm> do_split(int colour, int key, const std::string& name) override {
    std::unique_ptr<Comm> part = host_->split(colour, key, name);
    if (!part) return nullptr;
    Comm& host = *part;
    return std::make_unique<DeviceComm>(host, backend_, std::move(part));
  }

 private:
  std::unique_ptr<StagedRequest> fetch(Tensor result, ConstTensor t) {
    auto request =
        std::make_unique<StagedRequest>(backend_, result, HostCopy(t.dtype(), t.shape()));
    request->copy().fetch(backend_, t);
    return request;
  }
  void copy(Tensor out, ConstTensor in) {
    if (out.data() != in.data()) backend_.copy(out, in);
  }

  std::unique_ptr<Comm> owned_;
  Comm* host_;
  Backend& backend_;
};

}  // namespace

std::unique_ptr<Comm> make_device_comm(Comm& host, Backend& backend) {
  return std::make_unique<DeviceComm>(host, backend);
}

}  // namespace stretto
