"""The public contract: parameters of functions have the names, the order and the defaults stated.

A caller writes them by keyword, so a name that is changed breaks programs. More may be added.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import pytest

import symgrad as sg

SIGNATURES = """
placeholder(shape, dtype="float32", name=None)
constant(value, dtype=None, name=None)
variable(value, dtype=None, trainable=True, name=None)
is_variable(x, exclusive=False)
variable_data(x)
inplace_update(x, val)
inplace_increment(x, val)
inplace_decrement(x, val)
name_scope(name)
Graph(outputs, inputs=None, updates=())
TensorArray(size, element_shape, dtype="float32", dynamic_size=False)
cond(pred, true_fn, false_fn, name=None)
switch_case(index, branch_fns, default=None, name=None)
while_loop(cond, body, loop_vars, shape_invariants=None, maximum_iterations=None,
    back_prop=True, checkpoint=None, name=None)
scan(f, init, xs, length=None, reverse=False)
map(f, xs)
fori_loop(lower, upper, body, init)
gradients(ys, xs, grad_ys=None, name="gradients", colocate_gradients_with_ops=False,
    gate_gradients=False, aggregation_method=None, stop_gradients=None,
    unconnected_gradients="none")
stop_gradient(x, preserve_type=True)
jacobian(y, x)
hessians(ys, xs)
hvp(y, xs, vs)
jvp(ys, xs, tangents)
prevent_gradient(x, message)
recompute_grad(f)
grad_pass_through(f)
custom_gradient(f)
explain_none(y, x)
grad(func, argnums=0)
value_and_grad(func)
jac(func)
execute_with_gradients(func, xs, *, retain_grads=False, xs_grad_idxs=((0,),), ret_grad_idxs=((0,),))
optim.SGD(lr, momentum=0, nesterov=False)
optim.Adam(lr, beta1, beta2, epsilon)
optim.clip_by_global_norm(grads, max_norm)
adam_step(dcdw, mw, vw, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7, out=None)
optimizer_update(w, effective_grad, lr, /, *, inplace=False, stop_gradients=True, out=None)
gradient_descent_update(w, dcdw, lr, /, *, inplace=False, stop_gradients=True, out=None)
lars_update(w, dcdw, lr, /, *, decay_lambda=0, inplace=False, stop_gradients=True, out=None)
adam_update(w, dcdw, lr, mw_tm1, vw_tm1, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7,
    inplace=False, stop_gradients=True, out=None)
lamb_update(w, dcdw, lr, mw_tm1, vw_tm1, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7,
    max_trust_ratio=10, decay_lambda=0, inplace=False, stop_gradients=True, out=None)
nn.layer_norm(x, scale=None, bias=None, *, axis=-1, epsilon=1e-5)
nn.rms_norm(x, scale=None, *, axis=-1, epsilon=1e-6)
nn.group_norm(x, groups, scale=None, bias=None, *, epsilon=1e-5, layout="NHWC")
nn.batch_norm(x, mean, variance, scale=None, bias=None, *, training, momentum=0.9, epsilon=1e-5,
    axis=-1)
nn.embedding(indices, table)
nn.linear(x, w, b=None)
nn.dropout(x, rate, generator)
nn.conv(x, kernel, bias=None, *, strides=1, padding="VALID", dilation=1, groups=1, layout="NHWC")
nn.conv1d(x, kernel, bias=None, *, strides=1, padding="VALID", dilation=1, groups=1, layout="NHWC")
nn.conv2d(x, kernel, bias=None, *, strides=1, padding="VALID", dilation=1, groups=1, layout="NHWC")
nn.conv3d(x, kernel, bias=None, *, strides=1, padding="VALID", dilation=1, groups=1, layout="NHWC")
nn.conv_transpose(x, kernel, bias=None, *, strides=1, padding="VALID", dilation=1, groups=1,
    output_padding=0, layout="NHWC")
nn.max_pool(x, window, *, strides=None, padding="VALID", dilation=1, layout="NHWC")
nn.avg_pool(x, window, *, strides=None, padding="VALID", dilation=1, layout="NHWC",
    count_padding=False)
nn.adaptive_avg_pool(x, size, *, layout="NHWC")
nn.adaptive_max_pool(x, size, *, layout="NHWC")
nn.unfold(x, window, *, strides=1, padding="VALID", dilation=1, layout="NHWC")
nn.fold(y, size, window)
nn.scaled_dot_product_attention(q, k, v, *, mask=None, causal=False, scale=None, dropout=0.0,
    generator=None)
nn.multi_head_attention(q, k, v, wq, wk, wv, wo, *, heads, bias=None, mask=None, causal=False)
nn.rnn_cell(x, h, w, u, b=None, d=None)
nn.gru_cell(x, h, w, u, b=None, d=None)
nn.glu(x, axis=-1)
nn.mish(x)
nn.relu6(x)
nn.prelu(x, slope)
nn.softsign(x)
nn.celu(x, alpha=1)
nn.softmin(x, axis=-1)
nn.hard_shrink(x, bound=0.5)
nn.normalize(x, axis=-1, epsilon=1e-12)
nn.gumbel_softmax(logits, generator, *, temperature=1, hard=False)
nn.interpolate(x, size, *, method=..., align_corners=False, layout="NHWC")
nn.pixel_shuffle(x, factor, *, layout="NHWC")
nn.cross_entropy(logits, labels, *, weights=None, label_smoothing=0, ignore_index=None,
    reduction=...)
nn.nll(log_p, labels, axis=-1)
nn.binary_cross_entropy(p, y)
nn.kl_div(log_q, p)
nn.smooth_l1(x, t, beta=1.0)
nn.hinge(x, t)
nn.focal(logits, targets, alpha=0.25, gamma=2)
nn.triplet(anchor, positive, negative, margin=1.0)
nn.poisson_nll(x, t, log_input=True)
nn.gaussian_nll(x, t, var)
nn.cosine_similarity(x, y, axis=-1)
nn.ctc(log_probs, labels, input_lengths, label_lengths, *, blank=0, reduction=...)
cummax(x, axis=-1)
cummin(x, axis=-1)
logcumsumexp(x, axis=-1)
associative_scan(f, xs, *, axis=0, reverse=False)
top_k(x, k, *, axis=-1, largest=True)
segment_sum(data, segment_ids, num_segments)
segment_prod(data, segment_ids, num_segments)
segment_max(data, segment_ids, num_segments)
segment_min(data, segment_ids, num_segments)
segment_mean(data, segment_ids, num_segments)
dynamic_slice(x, starts, sizes)
dynamic_update_slice(x, update, starts)
scatter_nd(indices, updates, shape)
gather_nd(x, indices)
vmap(f, in_axes=0, out_axes=0)
shape(x)
linalg.cho_solve(c, b)
linalg.triangular_solve(a, b, *, lower=True, transpose=False, unit_diagonal=False)
linalg.toeplitz(c, r=None)
extern(name, inputs, out_types, *, pointer=None, grad=None, workspace=0, pure=True)
compile(inputs, outputs, updates=(), *, name=None, threads=None, target="native", opt_level=3,
    fast_math=False, memory_limit=None, check_numerics=False, cache=True)
run(fetches, feed_dict=None)
save(path, variables)
restore(path, variables)
random.key(seed)
random.split(key, n)
distributed.all_reduce(x, comm, op="sum")
distributed.all_gather(x, comm)
distributed.reduce_scatter(x, comm)
distributed.all_to_all(x, comm)
distributed.broadcast(x, comm, root=0)
distributed.send_recv(x, comm, permutation)
distributed.barrier(comm)
distributed.shard(variable, axis, comm)
random.gamma(key, shape, concentration)
random.beta(key, shape, a, b)
random.categorical(key, logits, shape=())
random.choice(key, a, shape=(), *, replace=True, p=None)
random.truncated_normal(key, shape, low=-2, high=2)
nn.init.glorot_uniform(shape, dtype="float32", *, seed, layout="NHWC")
Step.ir(self, stage, kernel=None)
Step.profile(self, *arrays, repeat=20)
Step.export(self, path, *, formats=("so", "o", "h"))
"""
_STATED = re.sub(r"\n {4}", " ", SIGNATURES).strip().splitlines()


def _differences(stated: str) -> list[str]:
    """Return in what a function differs from what is stated of it; `...` is any default."""
    name, parameters = stated.split("(", 1)
    wanted = inspect.signature(eval(f"lambda {parameters[:-1]}: None"))
    function: Any = functools.reduce(getattr, name.split("."), sg)
    found = inspect.signature(function).parameters
    order = [p.name for p in found.values() if p.kind is not p.KEYWORD_ONLY]
    differences = []
    for place, parameter in enumerate(wanted.parameters.values()):
        same = found.get(parameter.name)
        is_by_place = parameter.kind is not parameter.KEYWORD_ONLY
        if same is None:
            differences.append(f"{name} has no {parameter.name}")
        elif is_by_place and order[place : place + 1] != [parameter.name]:
            differences.append(f"{name}: {parameter.name} is not number {place}")
        elif parameter.default not in (..., parameter.empty, same.default):
            differences.append(f"{name}: {parameter.name}={same.default!r}")
    return differences


def test_public_functions_take_what_is_stated():
    differences = [problem for stated in _STATED for problem in _differences(stated)]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ("cond(pred, yes)", "cond has no yes"),
        ("cond(true_fn, pred)", "cond: true_fn is not number 0"),
        ("cond(pred, true_fn, false_fn, name=1)", "cond: name=None"),
    ],
)
def test_another_signature_is_told(stated, problem):
    assert problem in _differences(stated)
