#!/usr/bin/env python3
"""200 steps of every optimizer in float64, from the papers' formulas, as the values tests/optim compares with. Plain lists: a
program that shares nothing with framework/optim.

    tools/make_rules_golden.py > tests/golden/rules.json
    tools/make_rules_golden.py --check     compares these rules with published vectors (to 1e-9), PyTorch's own optimizers and
                                           numpy's singular vectors, where these are installed
"""
import json
import math
import sys

ROWS, COLS, N, STEPS, RATE, DECAY = 6, 4, 5, 200, 0.01, 0.1


def gradient(w, t, salt):
    """Of a bowl around a target, with a swing: it depends on the weights, so a wrong step shows in all later ones."""
    return [0.5 * (x - math.cos(salt + 2 * i)) + 0.2 * math.sin(1 + i + 3 * t + salt) for i, x in enumerate(w)]


def start(n, salt):
    return [math.sin(salt + 3 * i) for i in range(n)]


def transpose(a, rows, cols):
    return [a[i * cols + j] for j in range(cols) for i in range(rows)]


def product(a, b, m, k, n):
    return [sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]


def rms(x):
    return math.sqrt(sum(v * v for v in x) / len(x))


class Tensor:
    """One parameter with the state of its rule."""

    def __init__(self, w, rows=None):
        self.w, self.rows, self.state = w, rows, {}
        self.cols = len(w) // rows if rows else len(w)
        self.decay = DECAY if rows else 0.0  # as for norms and biases

    def plane(self, name, n=None):
        return self.state.setdefault(name, [0.0] * (n or len(self.w)))


def mean_update(m, beta, x):
    for i, v in enumerate(x):
        m[i] = beta * m[i] + (1 - beta) * v


def adamw(p, g, t, beta1=.9, beta2=.999, eps=1e-8):
    m, v = p.plane('m'), p.plane('v')
    mean_update(m, beta1, g)
    mean_update(v, beta2, [x * x for x in g])
    for i in range(len(g)):
        p.w[i] *= 1 - RATE * p.decay
        p.w[i] -= RATE * (m[i] / (1 - beta1 ** t)) / (math.sqrt(v[i] / (1 - beta2 ** t)) + eps)


def lion(p, g, t, beta1=.9, beta2=.99):
    m = p.plane('m')
    for i, x in enumerate(g):
        u = beta1 * m[i] + (1 - beta1) * x
        p.w[i] -= RATE * ((u > 0) - (u < 0) + p.decay * p.w[i])
        m[i] = beta2 * m[i] + (1 - beta2) * x


def sgd(p, g, t, momentum=.9, nesterov=False, dampening=0.0):
    b = p.plane('b')
    for i, x in enumerate(g):
        x += p.decay * p.w[i]
        b[i] = x if t == 1 else momentum * b[i] + (1 - dampening) * x
        p.w[i] -= RATE * (x + momentum * b[i] if nesterov else b[i])


def rmsprop(p, g, t, alpha=.99, eps=1e-8, momentum=0.0, centered=False):
    v, a, b = p.plane('v'), p.plane('a'), p.plane('b')
    for i, x in enumerate(g):
        x += p.decay * p.w[i]
        v[i] = alpha * v[i] + (1 - alpha) * x * x
        a[i] = alpha * a[i] + (1 - alpha) * x
        b[i] = momentum * b[i] + x / (math.sqrt(v[i] - (a[i] ** 2 if centered else 0)) + eps)
        p.w[i] -= RATE * b[i]


def adagrad(p, g, t, eps=1e-10, lr_decay=0.01, begin=0.1):
    s = p.plane('s')
    for i, x in enumerate(g):
        x += p.decay * p.w[i]
        s[i] += x * x + (begin if t == 1 else 0)
        p.w[i] -= RATE / (1 + (t - 1) * lr_decay) * x / (math.sqrt(s[i]) + eps)


def stable_adamw(p, g, t, beta1=.9, beta2=.99, eps=1e-6):
    m, v = p.plane('m'), p.plane('v')
    b1, b2 = [(b ** t - b) / (b ** t - 1) for b in (beta1, beta2)]
    mean_update(m, b1, g)
    mean_update(v, b2, [x * x for x in g])
    r = math.sqrt(sum(x * x / max(y, eps * eps) for x, y in zip(g, v)) / len(g))
    rate = RATE / max(1, r)
    for i in range(len(g)):
        p.w[i] = p.w[i] * (1 - rate * p.decay) - rate * m[i] / (math.sqrt(v[i]) + eps)


def ademamix(p, g, t, beta1=.9, beta2=.999, beta3=.9999, alpha=5.0, eps=1e-8, t_alpha=0, t_beta3=0):
    if t_alpha:
        alpha = min(t * alpha / t_alpha, alpha)
    if t_beta3 and t < t_beta3:
        s = t / t_beta3
        a, b = math.log(beta1), math.log(beta3)
        beta3 = min(math.exp(a * b / ((1 - s) * b + s * a)), beta3)
    m1, m2, v = p.plane('m1'), p.plane('m2'), p.plane('v')
    mean_update(m1, beta1, g)
    mean_update(m2, beta3, g)
    mean_update(v, beta2, [x * x for x in g])
    for i in range(len(g)):
        p.w[i] *= 1 - RATE * p.decay
        p.w[i] -= RATE * (m1[i] / (1 - beta1 ** t) + alpha * m2[i]) / (math.sqrt(v[i]) / math.sqrt(1 - beta2 ** t) + eps)


def adopt(p, g, t, beta1=.9, beta2=.9999, eps=1e-6):
    m, v = p.plane('m'), p.plane('v')
    if t == 1:
        v[:] = [x * x for x in g]
        return
    most = (t - 1) ** .25
    for i, x in enumerate(g):
        u = max(-most, min(most, x / max(math.sqrt(v[i]), eps)))
        m[i] = beta1 * m[i] + (1 - beta1) * u
        p.w[i] -= RATE * (p.decay * p.w[i] + m[i])
        v[i] = beta2 * v[i] + (1 - beta2) * x * x


def nadam(p, g, t, beta1=.9, beta2=.999, eps=1e-8, psi=4e-3, coupled=False):
    m, v = p.plane('m'), p.plane('v')
    decay = 0 if coupled else p.decay
    if coupled:  # as torch does without decoupled_weight_decay
        g = [x + p.decay * w for x, w in zip(g, p.w)]
    mean_update(m, beta1, g)
    mean_update(v, beta2, [x * x for x in g])
    mu = [beta1 * (1 - .5 * .96 ** (i * psi)) for i in range(1, t + 2)]
    for i, x in enumerate(g):
        d = math.sqrt(v[i] / (1 - beta2 ** t)) + eps
        p.w[i] *= 1 - RATE * decay
        p.w[i] -= RATE * ((1 - mu[-2]) / (1 - math.prod(mu[:-1])) * x + mu[-1] / (1 - math.prod(mu)) * m[i]) / d


def factor(p, x, beta, name):
    """1/√ of the second moment that row and column means stand for."""
    rows, cols = p.rows, p.cols
    r, c = p.plane(name + 'r', rows), p.plane(name + 'c', cols)
    mean_update(r, beta, [sum(x[i * cols:(i + 1) * cols]) / cols for i in range(rows)])
    mean_update(c, beta, [sum(x[j::cols]) / rows for j in range(cols)])
    mean = sum(r) / rows
    return [1 / math.sqrt(r[i] / mean * c[j]) for i in range(rows) for j in range(cols)]


def adafactor(p, g, t, scale_parameter=False, relative_step=False, warmup_init=False, beta1=0.0):
    rho = 1 - t ** -.8
    squares = [x * x + 1e-30 for x in g]
    if p.rows:
        f = factor(p, squares, rho, 'v')
    else:
        mean_update(p.plane('v'), rho, squares)
        f = [1 / math.sqrt(x) for x in p.plane('v')]
    u = [x * y for x, y in zip(g, f)]
    clip = max(1, rms(u))
    rate = min(1e-6 * t if warmup_init else 1e-2, 1 / math.sqrt(t)) if relative_step else RATE
    if scale_parameter:
        rate *= max(1e-3, rms(p.w))
    u = [rate * x / clip for x in u]
    if beta1:
        mean_update(p.plane('m'), beta1, u)
        u = p.plane('m')
    for i in range(len(g)):
        p.w[i] -= rate * p.decay * p.w[i]
        p.w[i] -= u[i]


def came(p, g, t, beta1=.9, beta2=.999, beta3=.9999):
    squares = [x * x + 1e-30 for x in g]
    if p.rows:
        f = factor(p, squares, beta2, 'v')
    else:
        mean_update(p.plane('v'), beta2, squares)
        f = [1 / math.sqrt(x) for x in p.plane('v')]
    u = [x * y for x, y in zip(g, f)]
    clip = max(1, rms(u))
    u = [x / clip for x in u]
    m = p.plane('m')
    mean_update(m, beta1, u)
    f = factor(p, [(x - y) ** 2 + 1e-16 for x, y in zip(u, m)], beta3, 'u') if p.rows else [1.0] * len(g)
    for i in range(len(g)):
        p.w[i] -= RATE * p.decay * p.w[i]
        p.w[i] -= RATE * m[i] * f[i]


def newton_schulz(g, rows, cols, steps=5):
    turned = rows > cols
    x, m, n = (transpose(g, rows, cols), cols, rows) if turned else (list(g), rows, cols)
    norm = math.sqrt(sum(v * v for v in x)) + 1e-7
    x = [v / norm for v in x]
    for _ in range(steps):
        a = product(x, transpose(x, m, n), m, n, m)
        aa = product(a, a, m, m, m)
        b = [-4.7750 * p + 2.0315 * q for p, q in zip(a, aa)]
        bx = product(b, x, m, m, n)
        x = [3.4445 * p + q for p, q in zip(x, bx)]
    return transpose(x, m, n) if turned else x


def muon(p, g, t, mu=.95, original=False, nesterov=True):
    if not p.rows:
        return adamw(p, g, t, .95, .95)
    m = p.plane('m')
    fresh = 1 - mu if original else 1
    for i, x in enumerate(g):
        m[i] = mu * m[i] + fresh * x
    u = [fresh * x + mu * y for x, y in zip(g, m)] if nesterov else m
    o = newton_schulz(u, p.rows, p.cols)
    scale = math.sqrt(max(1, p.rows / p.cols)) if original else .2 * math.sqrt(max(p.rows, p.cols))
    for i in range(len(g)):
        p.w[i] -= RATE * p.decay * p.w[i]
        p.w[i] -= RATE * scale * o[i]


def schedule_free(p, g, t, beta1=.9, beta2=.999, eps=1e-8, adam=True, rate=RATE, r=0.0, power=2.0):
    z = p.state.setdefault('z', list(p.w))
    v = p.plane('v')
    s = p.state
    s['most'] = max(s.get('most', 0), rate)
    weight = t ** r * s['most'] ** power
    s['sum'] = s.get('sum', 0) + weight
    c = weight / s['sum']
    for i, x in enumerate(g):
        v[i] = beta2 * v[i] + (1 - beta2) * x * x
        n = (x / (math.sqrt(v[i] / (1 - beta2 ** t)) + eps) if adam else x) + p.decay * p.w[i]
        p.w[i] += c * (z[i] - p.w[i])
        p.w[i] += rate * (beta1 * (1 - c) - 1) * n
        z[i] -= rate * n
    s['x'] = [y + (1 - 1 / beta1) * (q - y) for y, q in zip(p.w, z)]


def leading_vectors(gram, n, count):
    """Eigenvectors of a symmetric matrix by Jacobi's rotations, the largest values first; of each the largest entry is positive,
    since moments outlive a basis."""
    a, v = list(gram), [float(i == j) for i in range(n) for j in range(n)]
    for _ in range(60):
        for p in range(n):
            for q in range(p + 1, n):
                if abs(a[p * n + q]) < 1e-300:
                    continue
                theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q])
                t = (1 if theta >= 0 else -1) / (abs(theta) + math.sqrt(theta * theta + 1))
                c = 1 / math.sqrt(t * t + 1)
                s = t * c
                for k in range(n):
                    x, y = a[k * n + p], a[k * n + q]
                    a[k * n + p], a[k * n + q] = c * x - s * y, s * x + c * y
                for k in range(n):
                    x, y = a[p * n + k], a[q * n + k]
                    a[p * n + k], a[q * n + k] = c * x - s * y, s * x + c * y
                for k in range(n):
                    x, y = v[k * n + p], v[k * n + q]
                    v[k * n + p], v[k * n + q] = c * x - s * y, s * x + c * y
    order = sorted(range(n), key=lambda i: -a[i * n + i])[:count]
    sign = {i: math.copysign(1, max((v[k * n + i] for k in range(n)), key=abs)) for i in order}
    return [sign[i] * v[k * n + i] for i in order for k in range(n)]


def galore(p, g, t, rank=2, gap=50, scale=.25, beta1=.9, beta2=.999, eps=1e-6):
    size = RATE * math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
    if not p.rows:
        m, v = p.plane('m'), p.plane('v')
        mean_update(m, beta1, g)
        mean_update(v, beta2, [x * x for x in g])
        for i in range(len(g)):
            p.w[i] -= size * m[i] / (math.sqrt(v[i]) + eps)
            p.w[i] -= RATE * p.decay * p.w[i]
        return
    rows, cols = p.rows, p.cols
    if (t - 1) % gap == 0:  # rows >= cols here: right vectors
        p.state['basis'] = leading_vectors(product(transpose(g, rows, cols), g, cols, rows, cols), cols, rank)
    basis = p.state['basis']
    low = product(g, transpose(basis, rank, cols), rows, cols, rank)
    m, v = p.plane('m', rows * rank), p.plane('v', rows * rank)
    mean_update(m, beta1, low)
    mean_update(v, beta2, [x * x for x in low])
    n = [x / (math.sqrt(y) + eps) for x, y in zip(m, v)]
    full = product(n, basis, rows, rank, cols)
    for i in range(len(g)):
        p.w[i] -= size * scale * full[i]
        p.w[i] -= RATE * p.decay * p.w[i]


CASES = {  # optimizer, optim_args and its rule
    'adamw': ('adamw', {}, adamw, {}),
    'lion': ('lion', {'beta2': .99}, lion, {}),
    'sgd': ('sgd', {'momentum': .9}, sgd, {}),
    'sgd_nesterov': ('sgd', {'momentum': .9, 'nesterov': True}, sgd, {'nesterov': True}),
    'sgd_dampening': ('sgd', {'momentum': .9, 'dampening': .5}, sgd, {'dampening': .5}),
    'rmsprop': ('rmsprop', {}, rmsprop, {}),
    'rmsprop_centered': ('rmsprop', {'centered': True, 'momentum': .8}, rmsprop, {'centered': True, 'momentum': .8}),
    'adagrad': ('adagrad', {'lr_decay': .01, 'initial_accumulator_value': .1}, adagrad, {}),
    'stable_adamw': ('stable_adamw', {'betas': [.9, .99], 'eps': 1e-6}, stable_adamw, {}),
    'ademamix': ('ademamix', {}, ademamix, {}),
    'ademamix_rising': ('ademamix', {'t_alpha': 100, 't_beta3': 100}, ademamix, {'t_alpha': 100, 't_beta3': 100}),
    'adopt': ('adopt_adamw', {}, adopt, {}),
    'nadamw': ('nadamw', {}, nadam, {}),
    'adafactor': ('adafactor', {}, adafactor, {}),
    'adafactor_relative': ('adafactor', {'relative_step': True, 'scale_parameter': True, 'warmup_init': True}, adafactor,
                           {'relative_step': True, 'scale_parameter': True, 'warmup_init': True}),
    'adafactor_mean': ('adafactor', {'beta1': .9}, adafactor, {'beta1': .9}),
    'came': ('came_pytorch', {}, came, {}),
    'muon': ('muon', {}, muon, {}),
    'muon_original': ('muon', {'adjust_lr_fn': 'original'}, muon, {'original': True}),
    'schedule_free': ('schedule_free_adamw', {}, schedule_free, {}),
    'schedule_free_sgd': ('schedule_free_sgd', {}, schedule_free, {'adam': False}),
    'galore': ('galore_adamw', {'rank': 2, 'update_proj_gap': 50}, galore, {}),
}


def run(rule, options):
    matrix, vector = Tensor(start(ROWS * COLS, 1), ROWS), Tensor(start(N, 2))
    trace = {}
    for t in range(1, STEPS + 1):
        for p, salt in ((matrix, 1), (vector, 2)):
            rule(p, gradient(p.w, t, salt), t, **options)
        if t in (1, 20, STEPS):
            trace[str(t)] = [round(x, 10) for x in matrix.w + vector.w]
    out = {'after': trace}
    if 'x' in matrix.state:
        out['average'] = [round(x, 10) for x in matrix.state['x'] + vector.state['x']]
    return out


# w = [[.5, -.25, 1], [.75, -1, .125]], g_t[i][j] = sin(1 + i + 2j + 3t), rate .01, decay .1: the weights after three steps.
VECTORS = [
    (adamw, {}, '.511831826055 -.238247637890 .984288559774 .760377784027 -1.010505662072 .113052997648'),
    (lion, {'beta2': .99}, '.508491509500 -.239260739750 .987012989000 .757742259250 -1.006993009000 .114635364875'),
    (sgd, {}, '.510642031795 -.243497555598 .976704516702 .762958506522 -1.006044886377 .116833236617'),
    (sgd, {'nesterov': True}, '.514486786270 -.239369529376 .966284782485 .769076318686 -1.007750899610 .112031556462'),
    (adafactor, {}, '.505958887522 -.241153527818 .984597038759 .759325213290 -1.007678844442 .117932715262'),
    (adafactor, {'relative_step': True, 'scale_parameter': True},
     '.504123362607 -.243875769052 .989328277315 .756451277765 -1.005311616644 .120107245294'),
    (ademamix, {}, '.511842408634 -.238239753753 .984278691372 .760387549029 -1.010516442762 .113044455666'),
    (muon, {'original': True}, '.500831201045 -.243677445970 .990034671981 .753041520531 -1.004804299633 .125829076753'),
    (muon, {}, '.499308530923 -.247320100655 .994589100550 .749584505899 -.999705447927 .125042349370'),
    (came, {}, '.641762552551 -.162656942686 .783850616904 .919526411212 -1.196900309114 .041897610798'),
    (stable_adamw, {}, '.511770815029 -.238293361373 .984417650051 .760346112804 -1.010468240165 .113106701790'),
    (schedule_free, {'warmup': 2}, '.499835285656 -.248714438526 .997165638884 .749520402757 -.998807142441 .123858198320')]


def check_vectors():
    for rule, options, text in VECTORS:
        p = Tensor([.5, -.25, 1, .75, -1, .125], 2)
        for t in (1, 2, 3):
            g = [math.sin(1 + i + 2 * j + 3 * t) for i in range(2) for j in range(3)]
            more = {'rate': RATE * min(1, t / options['warmup'])} if 'warmup' in options else options
            rule(p, g, t, **more)
        far = max(abs(a - float(b)) for a, b in zip(p.w, text.split()))
        print(f'{rule.__name__} {options}: {far:.1e} from the published vector')
        assert far < 1e-9, rule.__name__


def check_torch():
    import torch
    pairs = [(adamw, {}, lambda w: torch.optim.AdamW(w, lr=RATE, weight_decay=DECAY)),
             (sgd, {}, lambda w: torch.optim.SGD(w, lr=RATE, momentum=.9, weight_decay=DECAY)),
             (sgd, {'nesterov': True}, lambda w: torch.optim.SGD(w, lr=RATE, momentum=.9, nesterov=True, weight_decay=DECAY)),
             (rmsprop, {}, lambda w: torch.optim.RMSprop(w, lr=RATE, weight_decay=DECAY)),
             (adagrad, {}, lambda w: torch.optim.Adagrad(w, lr=RATE, lr_decay=.01, initial_accumulator_value=.1, weight_decay=DECAY))]
    if int(torch.__version__.split('.')[0]) >= 2:  # before, the product of the next step's momentum had one factor twice
        pairs.append((nadam, {'coupled': True}, lambda w: torch.optim.NAdam(w, lr=RATE, weight_decay=DECAY)))
    for rule, options, make in pairs:
        p = Tensor(start(ROWS * COLS, 1), ROWS)
        w = torch.tensor(p.w, dtype=torch.float64, requires_grad=True)
        optimizer = make([w])
        for t in range(1, STEPS + 1):
            w.grad = torch.tensor(gradient(w.tolist(), t, 1), dtype=torch.float64)
            optimizer.step()
            rule(p, gradient(p.w, t, 1), t, **options)
        far = max(abs(a - b) for a, b in zip(p.w, w.tolist()))
        print(f'{rule.__name__} {options}: {far:.1e} from torch after {STEPS} steps')
        assert far < 1e-9, rule.__name__


def check_singular_vectors():
    import numpy
    for t in (1, 51, 101, 151):
        g = gradient(start(ROWS * COLS, 1), t, 1)
        mine = numpy.array(leading_vectors(product(transpose(g, ROWS, COLS), g, COLS, ROWS, COLS), COLS, 2)).reshape(2, COLS)
        theirs = numpy.linalg.svd(numpy.array(g).reshape(ROWS, COLS))[2][:2]
        for row in theirs:  # a singular vector's sign is free: of each the largest entry is positive
            row *= math.copysign(1, row[numpy.argmax(abs(row))])
        far = abs(mine - theirs).max()
        print(f'singular vectors of step {t}: {far:.1e} from numpy')
        assert far < 1e-9


if '--check' in sys.argv:
    check_vectors()
    for check in (check_torch, check_singular_vectors):
        try:
            check()
        except ImportError as e:
            print('skipped:', e)
else:
    print(json.dumps({name: {'optimizer': optimizer, 'optim_args': args, **run(rule, options)}
                      for name, (optimizer, args, rule, options) in CASES.items()}, indent=0))
