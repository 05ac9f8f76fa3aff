// The table of a view: columns, filters, sorting, and a plain copy of it for printing.
"use strict";

const Tables = (() => {
  const MOST_PRINTED = 1000;
  const SCROLLBAR = 16;
  const CUT = 150; // The least width of a text, such as the name of a covariate, in pixels.
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

  const pen = document.createElement("canvas").getContext("2d");

  // Return the least width of a column, in which no word of its heading is cut.
  function leastWidth({ title, kind }) {
    pen.font = `bold 13.5px ${getComputedStyle(document.body).fontFamily}`;
    const longest = Math.max(...title.split(" ").map((word) => pen.measureText(word).width));
    return Math.max(Values.NUMERIC.has(kind) ? 84 : 96, Math.ceil(36 + longest));
  }

  // Return the columns in the order of a screen: important ones come first on narrow ones.
  function ordered(columns) {
    if (!NARROW.matches) return columns;
    return [...columns.filter((c) => c.important), ...columns.filter((c) => !c.important)];
  }

  // Return the place of the last column that is to be visible without scrolling: the last important one, or a
  // later one if the columns until it fit where names are cut.
  function lastVisible(columns, width) {
    const important = columns.findLastIndex((c) => c.important);
    if (NARROW.matches) return important;
    let end = 0;
    const fits = columns.map((c) => {
      end += c.kind === "text" ? Math.max(leastWidth(c), CUT) : leastWidth(c);
      return end <= width;
    });
    return Math.max(important, fits.lastIndexOf(true));
  }

  // Return the largest width of texts, so that the columns until the last visible one fit.
  // Important texts, such as the reason of a status, get three times as much on wide screens.
  function mostOfTexts(columns, last, width) {
    const until = columns.slice(0, last + 1);
    const texts = until.filter((c) => !Values.NUMERIC.has(c.kind));
    if (!texts.length) return Infinity;
    const others = until.filter((c) => !texts.includes(c)).reduce((sum, c) => sum + leastWidth(c), 0);
    return (width - others) / texts.reduce((sum, c) => sum + weight(c), 0);
  }

  const wraps = ({ important, kind }) => important && kind === "text";

  function weight(described) {
    if (NARROW.matches || !described.important) return 1;
    return wraps(described) ? 3 : 1.5;
  }

  // Make a column of a table with so many columns: texts are wider where there are few columns, and
  // important ones are broken into lines.
  function column(described, length, mostOfText, short) {
    const { name, title, kind, digits } = described;
    const numeric = Values.NUMERIC.has(kind), minWidth = leastWidth(described);
    const wrapped = wraps(described);
    const widest = wrapped ? 640 : Math.max(300, 2400 / length);
    const ofNumbers = NARROW.matches && described.important ? minWidth : 150;
    const most = kind === "check" ? 190 : numeric ? ofNumbers : Math.min(widest, mostOfText * weight(described));
    const maxWidth = Math.max(minWidth, most);
    return {
      title, field: name, cssClass: wrapped ? "wrapped" : "", variableHeight: wrapped,
      hozAlign: numeric ? "right" : "left", headerHozAlign: numeric ? "right" : "left",
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
    const inOrder = ordered(record.shown), width = element.clientWidth - SCROLLBAR;
    const last = lastVisible(inOrder, width), most = mostOfTexts(inOrder, last, width);
    const columns = inOrder.map((c, i) => column(c, inOrder.length, i <= last ? most : Infinity,
      c.kind === "choice" ? shortened(rows.map((row) => row[c.name])) : new Map()));
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
