// Data of the page: decoding, formatting, filtering and export of values.
"use strict";

const Values = (() => {
  const DASH = "–";
  const FORMULA = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"];
  const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
  const NUMERIC = new Set(["count", "whole", "number", "bounded", "ratio", "p", "difference", "share", "check"]);
  const cache = new Map();

  // Return the record of a view, decompressed when it is first asked for.
  async function load(name) {
    if (!cache.has(name)) cache.set(name, decode(name));
    return cache.get(name);
  }

  async function decode(name) {
    const text = document.getElementById(`data-${name}`).textContent;
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const record = JSON.parse(await new Response(stream).text());
    record.columns = record.columns.map(([name, title, kind]) => ({ name, title, kind }));
    for (const column of Object.values(record.data)) {
      if (column.numbers) {
        column.numbers = column.numbers.map((x) => (typeof x === "string" ? Number(x) : x));
      }
    }
    // Texts that are the same in all rows are shown once above the table.
    record.constants = record.columns.filter((c) => c.kind === "choice" && record.rows > 1
      && record.data[c.name].texts?.length === 1 && !record.data[c.name].at.includes(-1));
    record.shown = record.columns.filter((c) => c.title !== "" && c.kind !== "long" && !record.constants.includes(c)
      && hasValues(record, c));
    record.keys = record.columns.filter((c) => c.kind === "id" || c.name === "database");
    return record;
  }

  // Return whether any row has a value of a column; columns without one are not shown.
  function hasValues(record, { name, kind }) {
    const { numbers, at } = record.data[name];
    const own = numbers ? numbers.some((x) => x !== null) : at.some((code) => code >= 0);
    return own || (kind === "check" && record.data[`${name}_verdict`].at.some((code) => code >= 0));
  }

  // Return one value: a number, a text, or null where it is missing.
  function value(column, row) {
    if (column.numbers) return column.numbers[row];
    const at = column.at[row];
    return at < 0 ? null : column.texts[at];
  }

  // Make the rows of a record whose values agree with `only`, an object of texts by column.
  function rows(record, only) {
    const tests = Object.entries(only)
      .filter(([name]) => record.data[name])
      .map(([name, wanted]) => {
        const column = record.data[name];
        if (column.numbers) return (i) => String(column.numbers[i]) === wanted;
        const code = column.texts.indexOf(wanted);
        return (i) => column.at[i] === code;
      });
    const names = Object.keys(record.data);
    const columns = names.map((name) => record.data[name]);
    const found = [];
    const used = new Map();
    for (let i = 0; i < record.rows; i++) {
      if (!tests.every((passes) => passes(i))) continue;
      const row = {};
      for (let k = 0; k < names.length; k++) row[names[k]] = value(columns[k], i);
      const key = record.keys.map((c) => row[c.name] ?? "").join("~");
      const times = (used.get(key) ?? 0) + 1;
      used.set(key, times);
      row._id = times > 1 ? `${key}~${times}` : key;
      found.push(row);
    }
    return found;
  }

  function grouped(x, digits = 0) {
    const text = Math.abs(x).toLocaleString("en-US", {
      minimumFractionDigits: digits, maximumFractionDigits: digits,
    });
    return x < 0 ? `−${text}` : text;
  }

  // Format a value as its kind of column is shown.
  function shown(kind, x) {
    if (x === null || x === undefined || x === "") return DASH;
    if (typeof x === "string") return x;
    if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
    switch (kind) {
      case "count": return x < 0 ? `<${grouped(-x)}` : grouped(x);
      case "bounded": return x < 0 ? `<${shown("number", -x)}` : shown("number", x);
      case "whole": return grouped(Math.round(x));
      case "ratio": return grouped(x, x >= 100 ? 0 : 2);
      case "p": return x < 0.001 ? "<0.001" : x.toFixed(3);
      case "difference": return grouped(x, 3);
      case "share": return `${grouped(100 * x, 2)}%`;
      case "id": return String(x);
      default: {
        if (Math.abs(x) >= 1000) return grouped(Math.round(x));
        const text = String(Number(x.toPrecision(4)));
        return text.startsWith("-") ? `−${text.slice(1)}` : text;
      }
    }
  }

  // Make a number for sorting: suppressed counts are negative limits, and differences sort by size.
  function sortable(kind, x) {
    if (x === null || x === undefined) return Number.NEGATIVE_INFINITY;
    if (kind === "difference") return Math.abs(x);
    if (kind === "bounded") return x < 0 ? -x * (1 - 1e-9) : x;
    return kind === "count" && x < 0 ? -x - 0.5 : x;
  }

  // Make a test of values from what a reader types: "<0.1", "0.5..2", or a part of the text.
  function test(kind, typed) {
    const text = typed.trim().toLowerCase().replace("−", "-");
    if (text === "") return () => true;
    if (NUMERIC.has(kind)) {
      const range = text.match(/^(-?[\d.]+)\s*(?:\.\.|to)\s*(-?[\d.]+)$/);
      if (range) {
        const [low, high] = [Number(range[1]), Number(range[2])];
        return (x) => typeof x === "number" && x >= low && x <= high;
      }
      const relation = text.match(/^(<=|>=|<|>|=)\s*(-?[\d.]+(?:e-?\d+)?)$/);
      if (relation) {
        const limit = Number(relation[2]);
        const tests = {
          "<": (x) => x < limit, "<=": (x) => x <= limit, ">": (x) => x > limit,
          ">=": (x) => x >= limit, "=": (x) => x === limit,
        };
        const passes = tests[relation[1]];
        return (x) => typeof x === "number" && passes(sortable(kind, x));
      }
    }
    const words = text.split(/\s+/);
    return (x) => {
      const own = shown(kind, x).toLowerCase().replace("−", "-");
      return words.every((word) => own.includes(word));
    };
  }

  // Make a cell that no spreadsheet takes for a formula, as all exported tables of the package.
  function safeCell(x) {
    if (x === null || x === undefined) return "";
    if (typeof x !== "string") return String(x);
    const text = x.replace(CONTROL, " ");
    const start = text.replace(/^ +/, "");
    const isNumber = start.trim() !== "" && !Number.isNaN(Number(start));
    return FORMULA.some((c) => start.startsWith(c)) && !isNumber ? `'${text}` : text;
  }

  // Write rows as CSV with the names of the data.
  function csv(record, found) {
    const names = Object.keys(record.data);
    const quoted = (x) => {
      const text = safeCell(x);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = found.map((row) => names.map((name) => quoted(row[name])).join(","));
    return [names.map(quoted).join(","), ...lines].join("\n") + "\n";
  }

  const rowValue = (record, name, row) => value(record.data[name], row);

  return { load, rows, rowValue, shown, sortable, test, csv, safeCell, NUMERIC, DASH };
})();
