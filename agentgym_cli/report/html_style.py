"""The look of a report's page: light or dark as the reader prefers, one column, no outside resource."""

from __future__ import annotations

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content security: nothing but the page's own style."""
STYLE = """
:root{--bg:#fff;--fg:#1d2329;--dim:#5b6670;--line:#dde2e7;--soft:#f4f6f8;--accent:#1f5fa8;
--o0:#2f7d4f;--o1:#a9b3bd;--o2:#c4512f;--o3:#e0b83c;--good:#dff0e4;--bad:#f7e1da;--weak:#eef1f4;--warn-bg:#fdf3d8;--warn:#7a5a00}
@media (prefers-color-scheme:dark){:root{--bg:#14181c;--fg:#e4e8ec;--dim:#97a3ae;--line:#313941;--soft:#1d2329;--accent:#7db3ee;
--o0:#3f9465;--o1:#8d99a5;--o2:#e0714f;--o3:#d9b44a;--good:#1d3a29;--bad:#462a22;--weak:#232a31;--warn-bg:#3a3116;--warn:#efce7a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:1.5rem 1.25rem 4rem;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.4rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
a{color:var(--accent)}nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:1rem 0 0;font-size:.9rem}
.badge{display:inline-block;margin-right:.4rem;padding:.05rem .55rem;border-radius:1rem;background:var(--warn-bg);color:var(--warn);font-size:.8rem}
.scroll{overflow-x:auto;margin:.6rem 0 1rem}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--dim);padding:0 0 .35rem;font-size:.85rem}
th,td{text-align:left;vertical-align:top;padding:.28rem .9rem .28rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere;min-width:3.5rem}
tbody th{min-width:12rem}td,thead th+th{padding-left:.3rem}thead th{color:var(--dim);font-weight:500;white-space:nowrap}tbody th{font-weight:500}
td.good{background:var(--good)}td.bad{background:var(--bad)}td.weak{background:var(--weak)}td.good,td.bad,td.weak{padding-left:.5rem}
dl{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.2rem 1rem;margin:.6rem 0;font-size:.92rem}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
p{margin:.5rem 0;overflow-wrap:anywhere}p.warning{background:var(--warn-bg);color:var(--warn);padding:.5rem .75rem;border-radius:.3rem}
p.good{color:var(--o0)}
code,pre{font:.84rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--soft);padding:.6rem .75rem;border-radius:.3rem;white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0 .8rem}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--accent);font-size:.9rem}
figure{margin:1rem 0}figcaption{color:var(--dim);font-size:.85rem}
svg{width:100%;max-width:760px;height:auto;display:block}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:var(--dim)}svg .label{fill:var(--fg)}
svg .on{fill:#fff}svg .o1t,svg .o3t{fill:#1d2329}
.o0{fill:var(--o0);background:var(--o0)}.o1{fill:var(--o1);background:var(--o1)}.o2{fill:var(--o2);background:var(--o2)}
.o3{fill:var(--o3);background:var(--o3)}
.shade0{fill:var(--soft)}.shade1{fill:var(--line);fill-opacity:.55}.grid{stroke:var(--line);stroke-width:1}
.curve{fill:none;stroke:var(--accent);stroke-width:2;stroke-linejoin:round}.dot{fill:var(--accent)}
.key{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;margin:0 .35rem 0 1rem;vertical-align:-.1rem}.key:first-child{margin-left:0}
@media print{body{max-width:none}nav{display:none}}
""".strip()
