// The table of a view: columns, filters, sorting, and a plain copy of it for printing.
"use strict";

const Tables = (() => {
  const MOST_PRINTED = 1000;
  const LIKE = 10, KEPT = 6; // Letters with which names begin alike, and those of them that stay.

  // Return shorter forms of names that begin alike, which show what differs; their title is the whole name.
  function shortened(names) {
    const sorted = [...new Set(names)].filter((name) => typeof name === "string").sort();
    const alike = (a, b) => {
      let n = 0;
      while (n < a.length && a[n] === b?.[n]) n += 1;
      return a.lastIndexOf(" ", n - 1) + 1; // Only whole words are left out.
    };
    const found = new Map(sorted.map((name, i) => {
      const n = Math.max(alike(name, sorted[i - 1]), alike(name, sorted[i + 1]));
      return [name, n < LIKE ? name : `${name.slice(0, KEPT).trimEnd()}… ${name.slice(n)}`];
    }));
    return new Set(found.values()).size === found.size ? found : new Map();
  }

  function cell(kind, x, verdict, digits, short) {
    const span = document.createElement("span");
    span.textContent = short ?? Values.shown(kind, x, digits);
    if (kind === "check") {
      const word = verdict ?? "NOT EVALUATED";
      span.textContent = x === null ? word.toLowerCase() : `${span.textContent} ${word.toLowerCase()}`;
      span.className = `verdict ${word.split(" ")[0]}`;
    } else if (x === null) {
      span.className = "faint";
    }
    if (typeof x === "string" && (x.length > 30 || (short ?? x) !== x)) span.title = x;
    return span;
  }

  function compare(kind) {
    if (Values.NUMERIC.has(kind)) {
      return (a, b) => Values.sortable(kind, a) - Values.sortable(kind, b);
    }
    return (a, b) => String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
  }

  const NARROW = window.matchMedia("(max-width: 60rem)");

  // Return the least width of a column, in which no word of its heading is cut.
  function leastWidth({ title, kind }) {
    const longest = Math.max(...title.split(" ").map((word) => word.length));
    return Math.max(Values.NUMERIC.has(kind) ? 84 : 96, 40 + 8.8 * longest);
  }

  // Return the columns in the order of a screen: important ones come first on narrow ones.
  function ordered(columns) {
    if (!NARROW.matches) return columns;
    return [...columns.filter((c) => c.important), ...columns.filter((c) => !c.important)];
  }

  // Return the largest width of texts, so that important columns after them are visible without scrolling.
  // Important texts, such as the reason of a status, get twice as much.
  function mostOfTexts(columns, width) {
    const last = columns.findLastIndex((c) => c.important);
    const until = columns.slice(0, last + 1);
    const texts = until.filter((c) => !Values.NUMERIC.has(c.kind));
    if (NARROW.matches || !texts.length) return Infinity;
    const others = until.filter((c) => !texts.includes(c)).reduce((sum, c) => sum + leastWidth(c), 0);
    return (width - others) / texts.reduce((sum, c) => sum + weight(c), 0);
  }

  function weight({ important }) {
    return important ? 2 : 1;
  }

  // Make a column of a table with so many columns: texts are wider where there are few columns, and
  // an important one at the end is as wide as its longest text.
  function column(described, length, mostOfText, short, lastText) {
    const { name, title, kind, digits } = described;
    const numeric = Values.NUMERIC.has(kind), minWidth = leastWidth(described);
    const most = kind === "check" ? 190 : numeric ? 150 : Math.min(Math.max(300, 2400 / length), mostOfText * weight(described));
    const maxWidth = Math.max(minWidth, lastText ? Infinity : most);
    return {
      title, field: name, hozAlign: numeric ? "right" : "left", headerHozAlign: numeric ? "right" : "left",
      headerSort: true, sorter: compare(kind), minWidth, maxWidth,
      formatter: (at) => cell(kind, at.getValue(), at.getRow()._getSelf().data[`${name}_verdict`], digits,
        short.get(at.getValue())),
      headerFilter: "input",
      headerFilterParams: { elementAttributes: { "aria-label": `Filter ${title}` } },
      headerFilterFunc: (typed, x, row) => filterTest(kind, typed)(
        x, kind === "check" ? row[`${name}_verdict`] : null),
    };
  }

  let last = { kind: "", typed: "", passes: null };

  // Return the test of a filter, which is made once for all rows.
  function filterTest(kind, typed) {
    if (last.kind !== kind || last.typed !== typed) {
      const passes = Values.test(kind, typed);
      const word = typed.trim().toLowerCase();
      last = { kind, typed, passes: (x, verdict) => passes(x)
        || (verdict !== null && word.length > 2 && verdict.toLowerCase().startsWith(word)) };
    }
    return last.passes;
  }

  // Make the table of a record in an element.
  function make(element, record, rows, sort) {
    const inOrder = ordered(record.shown), most = mostOfTexts(inOrder, element.clientWidth);
    const last = inOrder.findLastIndex((c) => c.important);
    const columns = inOrder.map((c, i) => column(c, inOrder.length, i <= last ? most : Infinity,
      c.kind === "choice" ? shortened(rows.map((row) => row[c.name])) : new Map(),
      c.important && c.kind === "text" && i === inOrder.length - 1));
    return new Tabulator(element, {
      data: rows, columns, index: "_id", maxHeight: "50vh", layout: "fitDataFill",
      placeholder: "No rows match.", selectableRows: 1,
      columnHeaderVertAlign: "bottom", headerFilterLiveFilterDelay: 200, initialSort: sort, nestedFieldSeparator: false,
      columnDefaults: { headerSortTristate: true }, rowFormatter: (row) => { row.getElement().tabIndex = -1; },
    });
  }

  // Make a plain table of the first rows, which browsers print over several pages.
  function printable(record, rows) {
    const columns = record.shown.filter(({ name }) => rows.some((row) => row[name] !== null || row[`${name}_verdict`]));
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const { title } of columns) {
      const th = document.createElement("th");
      th.textContent = title;
      head.append(th);
    }
    const body = table.createTBody();
    for (const row of rows.slice(0, MOST_PRINTED)) {
      const line = body.insertRow();
      for (const { name, kind, digits } of columns) {
        line.insertCell().append(cell(kind, row[name], row[`${name}_verdict`], digits));
      }
    }
    if (rows.length > MOST_PRINTED) {
      table.createCaption().textContent =
        `The first ${MOST_PRINTED.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} rows.`;
    }
    return table;
  }

  return { make, printable, cell, shortened };
})();
