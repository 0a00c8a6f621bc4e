"""The picture of docs/positions.md: what becomes of positions in bf16, and of the logits with them.

    pip install torch transformers
    python3 docs/positions_picture.py docs/positions.svg
"""

import math
import sys

import torch
import transformers as hf

torch.manual_seed(1)
config = hf.LlamaConfig(vocab_size=50, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2, max_position_embeddings=8192, tie_word_embeddings=True)
model = hf.LlamaForCausalLM(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        noise = 0.5 * (torch.rand_like(parameter) - 0.5)
        parameter.copy_((noise + 1 if parameter.dim() == 1 else noise).bfloat16().float())
ids = torch.randint(0, 50, (1, 4400))


def logits(kind, rounded):
    """Of all positions; `rounded` with positions as bf16 has them."""
    rotary = model.model.rotary_emb
    forward = type(rotary).forward

    def patched(x, position_ids):
        return forward(rotary, x, position_ids.bfloat16().float() if rounded else position_ids)

    rotary.forward = patched
    # What turns stays in f32, as it does when a checkpoint is loaded.
    inverse = rotary.inv_freq.clone()
    model.to(kind)
    rotary.inv_freq = inverse
    with torch.no_grad():
        out = model(ids).logits[0].float()
    model.to(torch.float32)
    del rotary.forward
    return out


exact = logits(torch.float32, False)
size = exact.pow(2).mean(1).sqrt()
collided = (logits(torch.float32, True) - exact).abs().amax(1) / size
rounded = (logits(torch.bfloat16, False) - exact).abs().amax(1) / size
for position in (257, 1025, 4097):
    print(position, "bf16 positions:", float(collided[position]), "bf16 weights and f32 positions:", float(rounded[position]))
seen = torch.arange(131072).bfloat16().float()
print("different positions of 131,072:", len(set(seen.tolist())), "of 4,096:", len(set(seen[:4096].tolist())))

width, height, gap = 430, 250, 70
parts = []


def axes(left, title, x_label, y_label, xs, ys):
    parts.append(f'<g transform="translate({left},46)">')
    parts.append(f'<text x="0" y="-22" class="title">{title}</text>')
    parts.append(f'<path class="axis" d="M0 0V{height}H{width}"/>')
    for at, text in xs:
        parts.append(f'<text x="{at:.1f}" y="{height + 17}" text-anchor="middle">{text}</text>')
    for at, text in ys:
        parts.append(f'<text x="-8" y="{at + 4:.1f}" text-anchor="end">{text}</text><path class="grid" d="M0 {at:.1f}H{width}"/>')
    parts.append(f'<text x="{width / 2}" y="{height + 36}" text-anchor="middle">{x_label}</text>')
    parts.append(f'<text x="0" y="-6" class="small">{y_label}</text>')


low, high = 490, 540
x = lambda p: (p - low) / (high - low) * width
y = lambda p: height - (p - low) / (high - low) * height
axes(70, "Neighbours become one", "position", "position as bf16 has it",
     [(x(p), p) for p in (496, 504, 512, 520, 528, 536)], [(y(p), p) for p in (496, 512, 528)])
parts.append(f'<path class="exact" d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}"/>')
steps = "".join(f"{'M' if p == low else 'L'}{x(p):.1f} {y(seen[p]):.1f}H{x(p + 1):.1f}" for p in range(low, high))
parts.append(f'<path class="rounded" d="{steps}"/></g>')

bottom, top = 1e-3, 10.0
x = lambda p: p / 4400 * width
y = lambda e: height - (math.log10(max(float(e), bottom)) - math.log10(bottom)) / math.log10(top / bottom) * height
axes(70 + width + gap + 40, "and the logits follow", "position", "largest difference from f32, beside the size of logits",
     [(x(p), f"{p:,}") for p in (257, 1025, 2049, 4097)], [(y(e), f"{e:g}") for e in (0.01, 0.1, 1, 10)])
for values, kind in ((rounded, "exact"), (collided, "rounded")):
    # The largest of each sixteen.
    points = [(p, max(values[p:p + 16])) for p in range(0, 4400, 16)]
    line = "".join(f"{'M' if p == 0 else 'L'}{x(p):.1f} {y(v):.1f}" for p, v in points)
    parts.append(f'<path class="{kind}" d="{line}"/>')
parts.append(f'<text x="{x(2000)}" y="{y(4):.1f}" class="of-rounded">positions in bf16</text>')
parts.append(f'<text x="{x(2000)}" y="{y(0.008):.1f}" class="of-exact">weights in bf16, positions in f32</text></g>')
whole = 70 + 2 * width + gap + 60
svg = f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height + 96}" font-family="system-ui, sans-serif" font-size="13">
<style>
svg {{ background: #fff; --ink: #222; --quiet: #888; --green: #2a7f62; --red: #c0392b; }}
@media (prefers-color-scheme: dark) {{ svg {{ background: #16181b; --ink: #ddd; --quiet: #777; --green: #5fc3a0; --red: #ff8070; }} }}
text {{ fill: var(--ink) }} .title {{ font-size: 16px; font-weight: 600 }} .small {{ font-size: 12px; fill: var(--quiet) }}
path {{ fill: none }} .axis {{ stroke: var(--quiet) }} .grid {{ stroke: var(--quiet); opacity: .25 }}
.exact {{ stroke: var(--green); stroke-width: 1.5 }} .rounded {{ stroke: var(--red); stroke-width: 1.5 }}
.of-exact {{ fill: var(--green) }} .of-rounded {{ fill: var(--red) }}
</style>
{chr(10).join(parts)}
</svg>
'''
with open(sys.argv[1], "w") as file:
    file.write(svg)
