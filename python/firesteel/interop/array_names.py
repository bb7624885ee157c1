"""Functions of numpy that captured code may call on arrays, by what they give. torch._numpy has all of them."""


def _words(text):
    return tuple(text.split())


# Memory of their own; numpy gives a scalar where there are no dimensions.
OWN = _words("""
    abs absolute add all amax amin angle any append arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
    argmin argsort average bitwise_and bitwise_not bitwise_or bitwise_xor cbrt ceil clip column_stack
    concatenate conjugate convolve copy copysign correlate cos cosh count_nonzero cross cumprod
    cumsum deg2rad degrees diagflat diff divide divmod dot dstack einsum equal exp exp2 expm1 fabs fix flip
    fliplr flipud float_power floor floor_divide fmax fmin fmod gcd gradient greater greater_equal heaviside
    histogram hstack hypot i0 inner invert isclose iscomplex isfinite isinf isnan isneginf isposinf isreal kron
    lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
    logical_or logical_xor matmul max maximum mean median min minimum mod modf multiply nan_to_num negative
    nextafter not_equal outer pad percentile positive power prod ptp quantile rad2deg radians reciprocal
    remainder repeat right_shift rint roll rot90 round searchsorted sign signbit sin sinc sinh sort sqrt square
    stack std subtract sum take take_along_axis tan tanh tensordot tile trace tril triu true_divide trunc vander
    var vdot vstack where
""")
# Perhaps the memory of an argument.
VIEWS = _words("""
    array_split asarray ascontiguousarray atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag
    diagonal expand_dims hsplit imag meshgrid moveaxis ravel real reshape rollaxis split squeeze swapaxes transpose
    vsplit
""")
# New arrays, also where no array is given.
MAKERS = _words("""
    arange array empty empty_like eye full full_like geomspace identity linspace logspace ones ones_like tri zeros
    zeros_like
""")
# Those that are methods of an array as well.
METHODS = _words("""
    all any argmax argmin argsort clip cumprod cumsum diagonal dot max mean min prod ptp ravel repeat round
    searchsorted squeeze std sum swapaxes take trace var
""")
DTYPES = _words("bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128")
