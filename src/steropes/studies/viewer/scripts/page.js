// The page: navigation, choices above a table, details of a row, and links that restore all of it.
"use strict";

const Page = (() => {
  const MOST_ROWS = 500000; // Larger views show one part, which readers choose.
  const views = JSON.parse(document.getElementById("views").textContent);
  const of = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, x] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), x);
      else if (x !== undefined && x !== false) element.setAttribute(name, x === true ? "" : x);
    }
    element.append(...children);
    return element;
  };

  // The view that is shown, with its record, its table and what the address says about it.
  let shown = { view: null, record: null, table: null, state: null };
  let ownHash = null; // The address that this page has set itself.

  // -- address ----------------------------------------------------------------------------------

  // Read the address: the view, chosen values and ids, the search, filters, sorting and the row.
  function readState() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const state = { view: views[0].name, only: {}, all: false, filters: {}, search: "", sort: [], row: null,
      chart: null };
    for (const [name, x] of parameters) {
      if (name === "view" && views.some((view) => view.name === x)) state.view = x;
      else if (name === "q") state.search = x;
      else if (name === "row") state.row = x;
      else if (name === "chart") state.chart = x;
      else if (name === "all") state.all = true;
      else if (name === "sort") {
        state.sort = x.split(",").map((part) => part.split(":"))
          .filter((part) => part.length === 2 && ["asc", "desc"].includes(part[1]))
          .map(([column, dir]) => ({ column, dir }));
      } else if (name.startsWith("f.")) state.filters[name.slice(2)] = x;
      else if (name.startsWith("is.")) state.only[name.slice(3)] = x;
    }
    return state;
  }

  function address(state) {
    const parameters = new URLSearchParams({ view: state.view });
    for (const [name, x] of Object.entries(state.only)) parameters.set(`is.${name}`, x);
    if (state.all && !Object.keys(state.only).length) parameters.set("all", "1");
    if (state.search) parameters.set("q", state.search);
    for (const [name, x] of Object.entries(state.filters)) if (x) parameters.set(`f.${name}`, x);
    if (state.sort.length) parameters.set("sort", state.sort.map((s) => `${s.column}:${s.dir}`).join(","));
    if (state.chart) parameters.set("chart", state.chart);
    if (state.row) parameters.set("row", state.row);
    return `#${parameters}`;
  }

  // Put the state into the address without another entry in the history.
  function keepState() {
    ownHash = address(shown.state);
    history.replaceState(null, "", ownHash);
  }

  // -- navigation -------------------------------------------------------------------------------

  function drawNavigation() {
    const list = of("navigation");
    let group = null;
    for (const view of views) {
      if (view.group !== group) {
        group = view.group;
        list.append(make("h2", {}, group));
        list.append(make("ul"));
      }
      const link = make("a", { href: `#view=${view.name}`, id: `to-${view.name}` }, view.title, " ",
        make("span", { class: "rows" }, view.rows.toLocaleString("en-US")));
      list.lastChild.append(make("li", {}, link));
    }
  }

  const NARROW = matchMedia("(max-width: 60rem)"); // As in the style sheet.

  // Close the list of tables where it would fill the screen.
  function foldNavigation() {
    of("menu").open = !NARROW.matches;
  }

  function markNavigation(name) {
    for (const link of document.querySelectorAll("#navigation a")) {
      if (link.id === `to-${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  // -- choices ----------------------------------------------------------------------------------

  function distinct(record, name) {
    const { texts, packed } = record.data[name];
    if (!texts) return [];
    return texts.filter((_, n) => packed.includes(n)).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  }

  // Choose the first value of each choice until a large view has fewer rows.
  function narrowed(record, only) {
    const found = { ...only };
    for (const column of record.columns.filter((c) => c.kind === "choice")) {
      if (record.rows <= MOST_ROWS || Values.chosen(record, found).length <= MOST_ROWS) break;
      if (!(column.name in found)) found[column.name] = distinct(record, column.name)[0] ?? "";
    }
    return found;
  }

  // Return the choices with which a table opens: outcomes of interest, and everybody before strata.
  function usual(record) {
    const found = {};
    for (const [name, x] of [["role", "of interest"], ["age", "all"], ["sex", "all"]]) {
      const further = { ...found, [name]: x };
      if (record.data[name]?.texts?.includes(x) && Values.chosen(record, further).length) found[name] = x;
    }
    return found;
  }

  function drawChoices() {
    const { record, state } = shown;
    const place = of("choices");
    place.replaceChildren();
    for (const column of record.columns.filter((c) => c.kind === "choice")) {
      const values = distinct(record, column.name);
      if (values.length < 2 && !(column.name in state.only)) continue;
      const select = make("select", { id: `choose-${column.name}`, onchange: (event) => {
        if (event.target.selectedIndex === 0) delete state.only[column.name];
        else state.only[column.name] = values[event.target.selectedIndex - 1];
        state.all = true;
        state.row = null;
        refill();
      } }, make("option", {}, `All (${values.length})`));
      for (const x of values) select.append(make("option", {}, x));
      select.selectedIndex = column.name in state.only ? values.indexOf(state.only[column.name]) + 1 : 0;
      place.append(make("label", {}, column.title, select));
    }
    const ids = Object.keys(state.only).filter((name) => record.columns.some((c) => c.name === name && c.kind === "id"));
    if (ids.length) {
      place.append(make("button", { type: "button", class: "chip", onclick: () => {
        for (const name of ids) delete state.only[name];
        state.all = true;
        state.row = null;
        refill();
      } }, "Only the linked result ✕"));
    }
  }

  // -- table ------------------------------------------------------------------------------------

  async function open() {
    const state = readState();
    const view = views.find((v) => v.name === state.view);
    if (shown.table) shown.table.destroy();
    closeDetails();
    markNavigation(view.name);
    foldNavigation();
    document.title = `${view.title} – ${document.body.dataset.title}`;
    of("title").textContent = view.group === view.title ? view.title : `${view.group}: ${view.title}`;
    of("status").textContent = "Loading…";
    const record = await Values.load(view.name);
    of("intro").textContent = record.intro;
    of("constants").replaceChildren(...record.constants.flatMap(({ title, name }) => [
      make("span", {}, `${title}: ${Values.rowValue(record, name, 0)}`)]));
    const untouched = !state.all && !state.row && !Object.keys(state.only).length;
    if (untouched) state.only = usual(record);
    state.only = narrowed(record, state.only);
    shown = { view, record, state, table: null };
    of("search").value = state.search;
    const linked = state.row ? Values.rowOf(record, state.row) : null;
    if (linked !== null && !Values.chosen(record, state.only).includes(linked)) {
      state.only = {}; // A link to a row wins over choices that leave it out.
      state.all = true;
    }
    drawChoices();
    await drawTable();
    if (state.row) openRow(linked, true);
  }

  function searchTest(record, typed) {
    const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
    const names = record.columns.filter((c) => c.title && ["text", "choice"].includes(c.kind)).map((c) => c.name);
    return (row) => {
      const text = names.map((name) => row[name] ?? "").join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
  }

  function drawTable() {
    const { record, state } = shown;
    const rows = Values.rows(record, state.only);
    const known = new Set(record.columns.map((c) => c.name));
    const table = Tables.make(of("table"), record, rows, state.sort.filter((s) => known.has(s.column)));
    shown.table = table;
    return new Promise((resolve) => {
      table.on("tableBuilt", () => {
        if (state.search) table.setFilter(searchTest(record, state.search));
        for (const [name, x] of Object.entries(state.filters)) {
          if (known.has(name)) table.setHeaderFilterValue(name, x);
        }
        makeHeadersUsable(table);
        afterChange();
        table.on("dataFiltered", later(afterChange));
        table.on("dataSorted", later(afterChange));
        resolve();
      });
      table.on("rowClick", (_, row) => openRow(row.getIndex()));
    });
  }

  function refill() {
    drawChoices();
    shown.table.setData(Values.rows(shown.record, shown.state.only)).then(() => {
      closeDetails();
      afterChange();
    });
  }

  // Call a function once after a burst of events.
  function later(call, wait = 120) {
    let timer = null;
    return () => {
      clearTimeout(timer);
      const { table } = shown;
      timer = setTimeout(() => { if (table === shown.table) call(); }, wait);
    };
  }

  // Return the rows that pass all filters, in their order. Tabulator's own function copies each row.
  const activeRows = (table) => table.rowManager.activeRows.map((row) => row.data);

  function afterChange() {
    const { table, state, record } = shown;
    state.filters = Object.fromEntries(table.getHeaderFilters().map((f) => [f.field, f.value]));
    state.sort = table.getSorters().map((s) => ({ column: s.field, dir: s.dir }));
    const found = table.rowManager.activeRows.length;
    of("status").textContent = `${found.toLocaleString("en-US")} of ${record.rows.toLocaleString("en-US")} rows`;
    keepState();
    drawChart();
  }

  // Let the keyboard sort by a heading, and move over rows and open them.
  function makeHeadersUsable(table) {
    for (const column of table.getColumns()) {
      const heading = column.getElement();
      heading.tabIndex = 0;
      heading.addEventListener("keydown", (event) => {
        if (event.target !== heading || (event.key !== "Enter" && event.key !== " ")) return;
        event.preventDefault();
        const [now] = table.getSorters().filter((s) => s.field === column.getField());
        table.setSort(column.getField(), now?.dir === "asc" ? "desc" : "asc");
      });
    }
    const grid = of("table");
    grid.tabIndex = 0; // The focus is on the grid, as its role requires, and not on a part of it.
    const holder = grid.querySelector(".tabulator-tableholder");
    holder.removeAttribute("tabindex");
    grid.setAttribute("aria-label", `${shown.view.title}: arrow keys choose a row, Enter opens its details`);
    grid.onkeydown = (event) => {
      if (event.target.closest(".tabulator-header")) return;
      const sideways = { ArrowLeft: -160, ArrowRight: 160 }[event.key];
      if (sideways) {
        event.preventDefault();
        holder.scrollLeft += sideways;
      }
      const [current] = table.getSelectedRows();
      if (event.key === "Enter" && current) openRow(current.getIndex());
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      const rows = table.getRows("visible");
      const next = !current ? rows[0] : event.key === "ArrowDown" ? current.getNextRow() : current.getPrevRow();
      if (!next) return;
      table.deselectRow();
      next.select();
      table.scrollToRow(next, "nearest", false).catch(() => {});
    };
  }

  // -- chart ------------------------------------------------------------------------------------

  async function drawChart() {
    const { record, table, state } = shown;
    const place = of("chart");
    const names = record.chart ? record.chart.split(" ") : [];
    const name = names.includes(state.chart) ? state.chart : names[0];
    of("chart-kinds").replaceChildren(...(names.length < 2 ? [] : names.map((kind) => make("button", {
      type: "button", "aria-pressed": String(kind === name), onclick: () => {
        state.chart = kind;
        keepState();
        drawChart();
      },
    }, Charts.titleOf(kind)))));
    let rows = activeRows(table);
    if (name === "forest") rows = rows.concat(await combinedWith(record, rows));
    if (table !== shown.table) return;
    const drawn = name ? Charts.draw(name, rows, record) : null;
    of("figure").hidden = !drawn && name === names[0]; // Of others the way back stays.
    place.replaceChildren(...(drawn ? [drawn.node] : []));
    of("caption").textContent = drawn ? drawn.caption : "The chosen rows have nothing to draw; choose others above.";
  }

  // The views with estimates of several databases that answer the questions of a view.
  const COMBINED = { estimates: ["synthesis", "synthesis-cm"],
    "series-estimates": ["series-synthesis", "synthesis-sccs"] };

  // Return the estimates of several databases that answer the questions of some rows, if these are few.
  async function combinedWith(record, rows) {
    const found = [];
    for (const name of COMBINED[record.name] ?? []) {
      if (!views.some((view) => view.name === name)) continue;
      const other = await Values.load(name);
      const both = (column) => record.data[column] && other.data[column];
      const pair = ["target_comparator_id", "exposures_outcome_set_id"].some(both) ? [] : ["target", "comparator"];
      const names = ["target_comparator_id", "exposures_outcome_set_id", "outcome_id", "analysis_id",
        "covariate_id"].filter(both).concat(pair, ["analysis"]);
      const key = (row) => names.map((column) => row[column]).join("~");
      const asked = new Set(rows.map(key));
      if (asked.size > 12) continue;
      found.push(...Values.rows(other, {})
        .filter((row) => (row.databases ?? row.n_databases) > 1 && asked.has(key(row)))
        .map((row) => ({ ...Values.plain(other, row), combined: true, database: "combined" })));
    }
    return found;
  }

  // -- details of a row -------------------------------------------------------------------------

  function openRow(id, scroll = false) {
    const { table, record, state } = shown;
    const row = id === null ? null : table.getRow(id);
    if (!row) {
      of("status").textContent += "; the linked row is not here";
      return;
    }
    table.deselectRow();
    row.select();
    if (scroll) table.scrollToRow(id, "center", false).catch(() => {});
    state.row = Values.keyOf(record, id);
    keepState();
    const data = new record.Row(id);
    const list = make("dl");
    for (const { name, title, kind } of record.columns) {
      if (!title || data[name] === null || data[name] === "") continue;
      const value = kind === "long" && /^[[{]/.test(data[name])
        ? make("pre", {}, pretty(data[name])) : Tables.cell(kind, data[name], data[`${name}_verdict`]);
      list.append(make("dt", {}, title), make("dd", {}, value));
    }
    const panel = of("details");
    of("details-body").replaceChildren(list, related(record, data));
    panel.hidden = false;
  }

  function pretty(text) {
    try {
      return JSON.stringify(JSON.parse(text), null, 1);
    } catch {
      return text;
    }
  }

  // Link to the rows of other views that are about the same result.
  function related(record, data) {
    const identifying = ["target_comparator_id", "exposures_outcome_set_id", "outcome_id", "analysis_id",
      "performance_id", "cohort_id"];
    const own = identifying.filter((name) => record.data[name] && data[name] !== null);
    const links = make("ul", { class: "related" });
    for (const view of views) {
      const theirs = relatedColumns[view.group];
      if (view.name === record.name || view.group !== record.group || !theirs || !own.length) continue;
      const parameters = new URLSearchParams({ view: view.name });
      for (const name of own) if (view.ids.includes(name)) parameters.set(`is.${name}`, data[name]);
      if (view.ids.includes("database") && data.database) parameters.set("is.database", data.database);
      links.append(make("li", {}, make("a", { href: `#${parameters}` }, view.title)));
    }
    return links.childElementCount ? make("div", {}, make("h3", {}, "The same result in"), links) : make("div");
  }
  const relatedColumns = { "Cohort studies": true, "Case series": true, Prediction: true, "Cohort diagnostics": true };

  function closeDetails() {
    of("details").hidden = true;
    if (shown.state) shown.state.row = null;
  }

  // -- commands ---------------------------------------------------------------------------------

  function exportTable() {
    const { table, record, view } = shown;
    const text = Values.csv(record, activeRows(table));
    const link = make("a", {
      href: URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" })), download: `${view.name}.csv`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  async function copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      of("status").textContent = "The link is copied.";
    } catch {
      of("status").textContent = "Copy the link from the address line.";
    }
  }

  function changeColours() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  }

  function start() {
    drawNavigation();
    of("search").addEventListener("input", later(() => {
      const { table, record, state } = shown;
      state.search = of("search").value.trim();
      if (state.search) table.setFilter(searchTest(record, state.search));
      else table.clearFilter();
    }, 200));
    of("reset").addEventListener("click", () => { location.hash = `#view=${shown.view.name}&reset=${Date.now()}`; });
    of("export").addEventListener("click", exportTable);
    of("print").addEventListener("click", () => window.print());
    of("colours").addEventListener("click", changeColours);
    of("copy").addEventListener("click", copyLink);
    of("close").addEventListener("click", () => { closeDetails(); keepState(); });
    NARROW.addEventListener("change", foldNavigation);
    window.addEventListener("hashchange", () => { if (location.hash !== ownHash) open(); });
    window.addEventListener("beforeprint", () => {
      of("printed").replaceChildren(Tables.printable(shown.record, activeRows(shown.table)));
    });
    window.addEventListener("afterprint", () => of("printed").replaceChildren());
    return open();
  }

  return { start, ready: start() };
})();
