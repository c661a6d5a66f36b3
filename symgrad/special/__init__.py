"""Special functions, under SciPy's names: gamma, error, Bessel and zeta functions and entropies."""

from symgrad.frontend.publication import publish as _publish
from symgrad.graph.ops.transcendental import erf as erf
from symgrad.nn.activations import logsumexp as logsumexp
from symgrad.special.distributions import erfc as erfc
from symgrad.special.distributions import erfcx as erfcx
from symgrad.special.distributions import erfinv as erfinv
from symgrad.special.distributions import log_ndtr as log_ndtr
from symgrad.special.distributions import ndtr as ndtr
from symgrad.special.distributions import ndtri as ndtri
from symgrad.special.gamma import beta as beta
from symgrad.special.gamma import betainc as betainc
from symgrad.special.gamma import betaln as betaln
from symgrad.special.gamma import digamma as digamma
from symgrad.special.gamma import gammainc as gammainc
from symgrad.special.gamma import gammaincc as gammaincc
from symgrad.special.gamma import gammaln as gammaln
from symgrad.special.gamma import lgamma as lgamma
from symgrad.special.gamma import polygamma as polygamma
from symgrad.special.gamma import zeta as zeta
from symgrad.special.logarithms import entr as entr
from symgrad.special.logarithms import expit as expit
from symgrad.special.logarithms import i0e as i0e
from symgrad.special.logarithms import i1e as i1e
from symgrad.special.logarithms import logit as logit
from symgrad.special.logarithms import softmax as softmax
from symgrad.special.logarithms import xlog1py as xlog1py
from symgrad.special.logarithms import xlogy as xlogy

__all__ = _publish(globals())
