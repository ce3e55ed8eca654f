"""The style sheet and the script of the page.

Two themes by variables. Text has a contrast of at least 4.5 to its background, in both themes. The script filters and
sorts the overview; without it the page is complete.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#f6f6f3;--card:#fff;--ink:#1d2125;--soft:#5a636d;--rule:#e2e2dc;--faint:#f0f0ec;
--blue:#2f6db3;--blue-soft:#c9dcf1;--teal:#13807a;--amber:#a8650a;--amber-soft:#f6dfb5;--red:#9c241d;--red-soft:#f7d4d0;
--green:#2b7a3d;--violet:#5c3a93;--violet-soft:#e0d5f2;--obsolete:#c3c5c3;--file:#7da9d8;--shade:#fdf3dd;
--c1:#2f6db3;--c2:#b4560f;--c3:#13807a;--c4:#7350a8;--c5:#a03368;--c6:#5b6b1d}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--card:#1c2125;--ink:#e8eaec;--soft:#a3adb6;--rule:#333a41;
--faint:#23292e;--blue:#7fb2ea;--blue-soft:#26425f;--teal:#5cc4bc;--amber:#e5ad54;--amber-soft:#4a3714;--red:#f0857c;
--red-soft:#552520;--green:#7cc98c;--violet:#b99ae6;--violet-soft:#3d3157;--obsolete:#565c60;--file:#4677ab;
--shade:#2f2a1c;--c1:#7fb2ea;--c2:#eda266;--c3:#5cc4bc;--c4:#b99ae6;--c5:#e78fbb;--c6:#b5c76a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main,header{max-width:1240px;margin:0 auto;padding:0 20px}
header{padding-top:32px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;font-weight:650}
h2{font-size:19px;margin:36px 0 12px;font-weight:650}
h3{font-size:13px;margin:22px 0 6px;font-weight:600;color:var(--soft)}
.card>h3:first-child{margin-top:0}
p,li{overflow-wrap:anywhere}p{margin:0 0 10px}
a{color:var(--blue)}
.soft{color:var(--soft)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:22px 0 8px;padding:0}
.tiles>div{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 14px}
.tiles dt{color:var(--soft);font-size:13px}
.tiles dd{margin:2px 0 0;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.25}
.tiles dd small{font-size:13px;font-weight:400;color:var(--soft);display:block}
.card{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:16px 18px;margin:0 0 16px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:13px;padding:0 0 6px}
th,td{padding:6px 8px;text-align:left;border-bottom:1px solid var(--rule);vertical-align:middle}
thead th{color:var(--soft);font-weight:600;font-size:13px;white-space:nowrap;border-bottom-width:2px}
tbody th{font-weight:500;overflow-wrap:anywhere;min-width:180px}
.pair table{font-size:13px}.pair th,.pair td{padding:5px 8px}.pair tbody th{min-width:150px}
tbody tr:last-child>*{border-bottom:0}
tbody tr:hover{background:var(--faint)}
.n{text-align:right;white-space:nowrap}
.t{white-space:nowrap}
thead button{all:unset;cursor:pointer;border-radius:3px}
thead button:focus-visible,summary:focus-visible,a:focus-visible,input:focus-visible{outline:2px solid var(--blue);
outline-offset:2px}
th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
.state{display:inline-block;padding:1px 9px;border-radius:999px;font-size:13px;white-space:nowrap;border:1px solid}
.clean{color:var(--green)}.not-closed{color:var(--soft)}.rolling-back{color:var(--violet);background:var(--violet-soft)}
.restore-marker{background:var(--amber-soft);border-color:var(--amber)}
.damaged,.unreadable{color:var(--red);background:var(--red-soft)}
.bar{display:inline-block;vertical-align:middle;width:60px;height:8px;border-radius:4px;background:var(--faint);
margin-right:8px;overflow:hidden}
.bar i{display:block;height:100%;background:var(--file)}
.bar i.o{background:var(--amber)}
.tools{display:none;gap:18px;align-items:center;margin:0 0 12px;flex-wrap:wrap}
.js .tools{display:flex}
input[type=search]{font:inherit;color:inherit;background:var(--card);border:1px solid var(--rule);border-radius:8px;
padding:6px 11px;min-width:240px}
details{background:var(--card);border:1px solid var(--rule);border-radius:10px;margin:0 0 14px}
summary{cursor:pointer;padding:12px 18px;display:flex;gap:12px;align-items:baseline;flex-wrap:wrap;list-style:none}
summary::-webkit-details-marker{display:none}
summary::before{content:"\\25b8";color:var(--soft)}
details[open]>summary::before{content:"\\25be"}
summary b{font-weight:600;overflow-wrap:anywhere}
.body{padding:0 18px 18px}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(330px,100%),1fr));gap:2px 30px;margin:4px 0 6px}
.facts div{display:flex;justify-content:space-between;gap:12px;border-bottom:1px solid var(--rule);padding:4px 0}
.facts dt{color:var(--soft)}
.facts dd{margin:0;text-align:right;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.said{font-size:18px;margin:18px 0}
.findings{margin:0 0 10px;padding-left:18px}.findings p{margin:2px 0 8px;color:var(--soft)}
.next{margin:4px 0 10px;padding-left:22px}.next li{margin:0 0 6px}
code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;background:var(--faint);
border-radius:4px;padding:1px 5px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(430px,100%),1fr));gap:10px 36px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
svg .label{fill:var(--soft)}
svg .axis{stroke:var(--rule);stroke-width:1}
svg .grid{stroke:var(--rule);stroke-width:1;stroke-dasharray:2 3}
.file{fill:var(--file)}.gone{fill:var(--obsolete)}.edge{fill:none;stroke:var(--card);stroke-width:1.5}
.unknown{fill:var(--blue-soft)}
svg .onfile{fill:var(--ink)}
.recovery{fill:var(--shade);stroke:var(--amber);stroke-width:1}
svg .recovery-label{fill:var(--amber)}
.ckpt{stroke:var(--teal);stroke-width:2;fill:none}.ckpt-active{stroke:var(--teal);stroke-width:1.5;stroke-dasharray:2 2}
.ckpt-dot{fill:var(--teal)}
.rollback{fill:var(--violet-soft);stroke:var(--violet);stroke-width:1.2}.rollback.open{stroke-dasharray:4 3}
svg .rollback-label{fill:var(--violet)}
.hit{stroke:var(--red);stroke-width:1.5}.hit-head{fill:var(--red)}
.missing{fill:var(--card);stroke:var(--red);stroke-width:2;stroke-dasharray:3 2}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
.s6{stroke:var(--c6)}
svg .f1{fill:var(--c1)}svg .f2{fill:var(--c2)}svg .f3{fill:var(--c3)}svg .f4{fill:var(--c4)}svg .f5{fill:var(--c5)}
svg .f6{fill:var(--c6)}
.area{fill:var(--blue-soft);opacity:.55}
.mark{stroke:var(--violet);stroke-width:1.2;stroke-dasharray:3 3}
.tail{fill:var(--red-soft);stroke:var(--red);stroke-width:1}
.chart{max-width:620px}
.narrow-map{display:none}
@media(max-width:620px){.map{display:none}.narrow-map{display:block;max-width:460px}
svg.chart{min-width:480px}}
.typebar{fill:var(--file)}
.legend{display:flex;gap:6px 18px;flex-wrap:wrap;font-size:13px;color:var(--soft);margin:6px 0 0;padding:0;
list-style:none}
.legend svg{display:inline-block;width:18px;height:12px;vertical-align:-1px;margin-right:6px}
footer{max-width:1240px;margin:30px auto 0;padding:0 20px 40px;color:var(--soft);font-size:13px}
@media print{details{break-inside:avoid}.tools{display:none!important}}
"""

SCRIPT: Final = """
(function(){var d=document,r=d.documentElement;r.classList.add('js');
var t=d.getElementById('overview');if(!t)return;var b=t.tBodies[0];
var q=d.getElementById('find'),p=d.getElementById('problems'),c=d.getElementById('shown');
function show(){var n=0,w=q.value.toLowerCase();[].forEach.call(b.rows,function(x){
var ok=x.textContent.toLowerCase().indexOf(w)>=0&&(!p.checked||x.dataset.problem==='1');x.hidden=!ok;n+=ok;
var s=d.getElementById(x.dataset.section);if(s)s.hidden=!ok});c.textContent=n+' of '+b.rows.length+' shown'}
q.addEventListener('input',show);p.addEventListener('change',show);show();
[].forEach.call(t.tHead.rows[0].cells,function(h,i){var u=d.createElement('button');u.type='button';
u.textContent=h.textContent;h.textContent='';h.appendChild(u);u.addEventListener('click',function(){
var up=h.getAttribute('aria-sort')!=='ascending';[].forEach.call(t.tHead.rows[0].cells,function(o){
o.removeAttribute('aria-sort')});h.setAttribute('aria-sort',up?'ascending':'descending');
[].slice.call(b.rows).sort(function(x,y){var m=x.cells[i].dataset.v,n=y.cells[i].dataset.v;
var k=m!==undefined&&n!==undefined?m-n:x.cells[i].textContent.localeCompare(y.cells[i].textContent);
return up?k:-k}).forEach(function(x){b.appendChild(x)})})});
function open(){var s=location.hash&&d.getElementById(location.hash.slice(1));if(s&&s.tagName==='DETAILS')s.open=true}
addEventListener('hashchange',open);open()})();
"""
