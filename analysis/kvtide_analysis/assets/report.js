"use strict";
// Draws the figures of the page from the JSON in #data; sorts and filters the table. Needs nothing from elsewhere.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  // Runs compared with the one shown; a dash beside each colour, so that no curve needs it.
  const OTHERS = [{ colour: "#009E73", dash: "dash" }, { colour: "#CC79A7", dash: "dot" }, { colour: "#000000", dash: "dashdot" }];
  const narrow = window.matchMedia("(max-width: 700px)").matches;  // no room for a tool bar beside the legend
  const pointer = window.matchMedia("(hover: hover)").matches;  // else the tool bar would never leave
  const config = { responsive: true, displaylogo: false, displayModeBar: narrow || !pointer ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"] };

  // ---- table -------------------------------------------------------------------------------------------------------
  const body = byId("runs").tBodies[0];
  const rows = [...body.rows];

  function sortBy(column, header) {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const key = (row) => row.cells[column].dataset.value;
    const empty = (value) => value === undefined || value === "";
    rows.sort((a, b) => {
      const left = key(a), right = key(b);
      if (empty(left) || empty(right)) return empty(left) - empty(right);  // missing values stay last
      const order = isNaN(left) || isNaN(right) ? left.localeCompare(right, "en", { numeric: true }) : left - right;
      return descending ? -order : order;
    });
    body.append(...rows);
  }

  function filterRows() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const within = byId("within")?.checked;
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (within && !row.classList.contains("within"));
      shown += !row.hidden;
    }
    byId("count").textContent = `${shown} of ${rows.length}`;
  }

  [...byId("runs").tHead.rows[0].cells].forEach((header, column) =>
    header.firstElementChild.addEventListener("click", () => sortBy(column, header)));
  byId("filter").addEventListener("input", filterRows);
  byId("within")?.addEventListener("change", filterRows);
  filterRows();

  // ---- figures -----------------------------------------------------------------------------------------------------
  const base = {
    margin: { l: 56, r: 12, t: 10, b: 48 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff", hovermode: "closest",
    font: { family: "system-ui, DejaVu Sans, sans-serif", size: 13, color: "#1b1b1b" }, showlegend: true,
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: narrow ? 10 : 12 } },
  };
  const axis = { gridcolor: "#ececec", linecolor: "#767676", zeroline: false, ticks: "outside" };

  function layoutOf(figure) {
    return { ...base, ...figure.layout, xaxis: { ...axis, ...figure.layout.xaxis }, yaxis: { ...axis, ...figure.layout.yaxis } };
  }

  function showMissing(key, reason) {
    const plot = byId(`plot-${key}`);
    if (plot.classList.contains("js-plotly-plot")) Plotly.purge(plot);
    plot.classList.add("none");
    plot.textContent = `No data: ${reason}.`;
    byId(`caption-${key}`).textContent = "";
  }

  // others: [{ name, figure }] of the runs to compare with.
  function draw(key, figure, others = []) {
    if (figure.missing) return showMissing(key, figure.missing);
    const plot = byId(`plot-${key}`);
    if (plot.classList.contains("none")) { plot.classList.remove("none"); plot.textContent = ""; }
    const layout = layoutOf(figure);
    if (layout.height) plot.style.height = `${layout.height}px`;
    const traces = structuredClone(figure.data);
    let caption = figure.caption;
    others.forEach(({ name, figure: other }, number) => {
      if (!other || other.missing || key === "zoom") return;
      const { colour, dash } = OTHERS[number];
      for (const trace of other.data) {
        if (trace.meta === "compared")
          traces.push({ ...trace, name, ...(trace.type === "bar" ? { marker: { color: colour, opacity: 0.6 } }
            : { line: { ...trace.line, color: colour, dash } }) });
        if (trace.meta === "stacked")  // one more bar, of the other run alone
          traces.push({ ...trace, y: [name], x: [trace.x[1]], showlegend: false });
      }
      delete layout.xaxis.range;
      if (!layout.yaxis.autorange) delete layout.yaxis.range;
      caption += ` Compared, ${name}: ${other.caption}`;
    });
    if (figure.note) caption += ` ${figure.note}`;
    layout.showlegend = traces.length > 1;
    byId(`caption-${key}`).textContent = caption;
    plot.setAttribute("aria-label", caption);
    return Plotly.react(plot, traces, layout, config);
  }

  let compared = [];  // run numbers, in the order in which they were asked for

  function nameOf(run) {
    return [...byId("run").options].find((option) => option.value === run).textContent;
  }

  function compareWith(runs) {
    compared = runs.slice(-data.most_compared);
    for (const row of rows) {
      const tick = row.querySelector("input.compare");
      if (tick) tick.checked = compared.includes(row.dataset.run);
    }
    byId("other").value = compared.length === 1 ? compared[0] : "";
    byId("compared").textContent = compared.length > 1 ? `beside it: ${compared.map(nameOf).join("; ")}` : "";
  }

  function drawRun() {
    const run = byId("run").value;
    const others = compared.filter((each) => each !== run);
    for (const row of rows) row.classList.toggle("shown", row.dataset.run === run || others.includes(row.dataset.run));
    const drawOne = (key) => draw(key, data.runs[run][key], others.map((each) => ({ name: nameOf(each), figure: data.runs[each][key] })));
    return data.keys.map((key) => () => drawOne(key));
  }

  // One figure at a time, so that the page answers between them.
  let drawing = 0;
  function inTurn(tasks, whenDone) {
    const turn = ++drawing;
    const next = () => {
      if (turn !== drawing) return;  // another choice was made meanwhile
      const task = tasks.shift();
      if (!task) return whenDone && whenDone();
      task();
      setTimeout(next);
    };
    next();
  }

  function select(run) {
    if (!(run in data.runs)) return;
    byId("run").value = run;
    inTurn(drawRun());
  }

  function start() {
    const fixed = Object.keys(data.fixed);
    for (const key of fixed) {
      draw(key, data.fixed[key]);
      performance.mark("first-figure");
      if (!data.fixed[key].missing) byId(`plot-${key}`).on("plotly_click", (event) => {
        const run = String(event.points[0].customdata);
        if (data.first !== null) return select(run);
        for (const row of rows) row.classList.toggle("shown", row.dataset.run === run);
        rows.find((row) => row.dataset.run === run)?.scrollIntoView({ block: "center" });
      });
    }
    let tasks = [];
    if (data.first !== null) {
      byId("run").value = data.first;
      byId("run").addEventListener("change", () => inTurn(drawRun()));
      byId("other").addEventListener("change", () => {
        compareWith(byId("other").value === "" ? [] : [byId("other").value]);
        inTurn(drawRun());
      });
      body.addEventListener("change", (event) => {
        const tick = event.target.closest("input.compare");
        if (!tick) return;
        const run = tick.closest("tr").dataset.run;
        compareWith(tick.checked ? [...compared.filter((each) => each !== run), run] : compared.filter((each) => each !== run));
        inTurn(drawRun());
      });
      body.addEventListener("click", (event) => {
        const button = event.target.closest("td button");
        if (!button) return;
        select(button.closest("tr").dataset.run);
        byId("run-heading").scrollIntoView();
      });
      tasks = drawRun();
    }
    inTurn(tasks, () => { document.documentElement.dataset.ready = "1"; });
  }

  // A printed page is narrower than the window.
  const fit = (width) => document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.relayout(plot, width
    ? { width, height: 300, autosize: false } : { width: null, height: null, autosize: true }));
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    if (window.Plotly) fit(680);
  });
  window.addEventListener("afterprint", () => window.Plotly && fit(0));

  // The plotting library is stored compressed: a third of its size, inflated by the browser itself.
  async function inflate() {
    const bytes = Uint8Array.from(atob(byId("bundle").textContent.trim()), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }
  const fail = (reason) => { for (const key of [...Object.keys(data.fixed), ...data.keys]) if (byId(`plot-${key}`)) {
    byId(`plot-${key}`).classList.add("none"); byId(`plot-${key}`).textContent = `Cannot draw here: ${reason}`; } };
  if (typeof DecompressionStream === "undefined") fail("this browser is too old (no DecompressionStream)");
  else inflate().then(start).catch((error) => { fail(error.message); console.error(error); });
})();
