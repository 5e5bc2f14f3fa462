"use strict";
// Draws the figures of the page from the JSON in #data; sorts and filters the table. Needs nothing from elsewhere.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const OTHER = { colour: "#009E73", fill: "rgba(0,158,115,0.2)" };
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
    const within = byId("within").checked;
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (within && !row.classList.contains("within"));
      shown += !row.hidden;
    }
    byId("count").textContent = `${shown} of ${rows.length} settings`;
  }

  [...byId("runs").tHead.rows[0].cells].forEach((header, column) =>
    header.firstElementChild.addEventListener("click", () => sortBy(column, header)));
  byId("filter").addEventListener("input", filterRows);
  byId("within").addEventListener("change", filterRows);
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

  function draw(key, figure, other, otherName) {
    if (figure.missing) return showMissing(key, figure.missing);
    const plot = byId(`plot-${key}`);
    if (plot.classList.contains("none")) { plot.classList.remove("none"); plot.textContent = ""; }
    const layout = layoutOf(figure);
    const traces = structuredClone(figure.data);
    let caption = figure.caption;
    if (other && !other.missing && key !== "zoom") {
      for (const trace of other.data.filter((each) => each.meta === "compared"))
        traces.push({ ...trace, name: otherName, ...(trace.type === "bar" ? { marker: { color: OTHER.colour, opacity: 0.6 } }
          : { line: { ...trace.line, color: OTHER.colour, dash: "dash" } }) });
      delete layout.xaxis.range;
      delete layout.yaxis.range;
      caption += ` Compared, ${otherName}: ${other.caption}`;
    }
    if (figure.note) caption += ` ${figure.note}`;
    layout.showlegend = traces.length > 1;
    byId(`caption-${key}`).textContent = caption;
    plot.setAttribute("aria-label", caption);
    return Plotly.react(plot, traces, layout, config);
  }

  function drawRun() {
    const run = byId("run").value, other = byId("other").value;
    const name = other === "" ? "" : byId("other").selectedOptions[0].textContent;
    for (const row of rows) row.classList.toggle("shown", row.dataset.run === run || row.dataset.run === other);
    for (const key of data.keys) draw(key, data.runs[run][key], other === "" ? null : data.runs[other][key], name);
  }

  function select(run) {
    if (!(run in data.runs)) return;
    byId("run").value = run;
    drawRun();
  }

  function start() {
    draw("pareto", data.pareto);
    if (!data.pareto.missing) byId("plot-pareto").on("plotly_click", (event) => select(String(event.points[0].customdata)));
    if (data.first !== null) {
      byId("run").value = data.first;
      byId("run").addEventListener("change", drawRun);
      byId("other").addEventListener("change", drawRun);
      body.addEventListener("click", (event) => {
        const button = event.target.closest("td button");
        if (!button) return;
        select(button.closest("tr").dataset.run);
        byId("run-heading").scrollIntoView();
      });
      drawRun();
    }
    document.documentElement.dataset.ready = "1";
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
  const fail = (reason) => { for (const key of ["pareto", ...data.keys]) if (byId(`plot-${key}`)) {
    byId(`plot-${key}`).classList.add("none"); byId(`plot-${key}`).textContent = `Cannot draw here: ${reason}`; } };
  if (typeof DecompressionStream === "undefined") fail("this browser is too old (no DecompressionStream)");
  else inflate().then(start).catch((error) => { fail(error.message); console.error(error); });
})();
