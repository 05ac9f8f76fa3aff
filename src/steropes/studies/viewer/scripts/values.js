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

  const TYPES = { "<i1": Int8Array, "<i2": Int16Array, "<i4": Int32Array, "<f8": Float64Array };

  async function decode(name) {
    const text = atob(document.getElementById(`data-${name}`).textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const whole = await new Response(stream).arrayBuffer();
    const start = 4 + new DataView(whole).getUint32(0, true);
    const record = JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 4, start - 4)));
    record.columns = record.columns.map(([name, title, kind, important]) => ({ name, title, kind, important: important === 1 }));
    for (const column of Object.values(record.data)) {
      column.packed = new TYPES[column.type](whole, start + column.offset, record.rows);
      column.missing = { "<i1": -128, "<i2": -32768, "<i4": -2147483648 }[column.type] ?? NaN;
    }
    // Texts that are the same in all rows are shown once above the table.
    record.constants = record.columns.filter((c) => c.kind === "choice" && record.rows > 1
      && record.data[c.name].texts?.length === 1 && !record.data[c.name].packed.includes(-1));
    record.shown = record.columns.filter((c) => c.title !== "" && c.kind !== "long" && !record.constants.includes(c)
      && hasValues(record, c));
    for (const c of record.shown) c.digits = digitsOf(record, c);
    record.keys = record.columns.filter((c) => c.kind === "id" || c.name === "database");
    record.Row = rowClass(record);
    return record;
  }

  // Make the class of rows, whose values are read from the columns when they are asked for.
  function rowClass(record) {
    class Row {
      constructor(number) { this._id = number; }
    }
    for (const [name, column] of Object.entries(record.data)) {
      // Tabulator sets each value that it draws to itself.
      Object.defineProperty(Row.prototype, name, { get() { return value(column, this._id); }, set() {} });
    }
    return Row;
  }

  // Return the digits after the point of a column of numbers up to one, so that points are aligned.
  function digitsOf(record, { name, kind }) {
    if (kind !== "number" && kind !== "bounded") return undefined;
    let digits = 0;
    for (let i = 0; i < Math.min(record.rows, 2000); i++) {
      const x = value(record.data[name], i);
      if (typeof x !== "number") continue;
      if (!(Math.abs(x) <= 1)) return undefined;
      digits = Math.max(digits, (shown(kind, x).split(".")[1] ?? "").length);
    }
    return Math.min(digits, 4);
  }

  // Return a row as an object with all its values.
  function plain(record, row) {
    return Object.fromEntries(Object.keys(record.data).map((name) => [name, row[name]]));
  }

  // Return whether any row has a value of a column; columns without one are not shown.
  function hasValues(record, { name, kind }) {
    const any = (column) => {
      for (let i = 0; i < record.rows; i++) if (value(column, i) !== null) return true;
      return false;
    };
    return any(record.data[name]) || (kind === "check" && any(record.data[`${name}_verdict`]));
  }

  // Return one value: a number, a text, or null where it is missing.
  function value(column, row) {
    const x = column.packed[row];
    if (column.texts) return x < 0 ? null : column.texts[x];
    if (column.scale) return x === column.missing ? null : x / column.scale;
    return Number.isNaN(x) ? null : x;
  }

  // Return the numbers of the rows whose values agree with `only`, an object of texts by column.
  function chosen(record, only) {
    const tests = Object.entries(only)
      .filter(([name]) => record.data[name])
      .map(([name, wanted]) => {
        const column = record.data[name];
        if (!column.texts) return (i) => String(value(column, i)) === wanted;
        const code = column.texts.indexOf(wanted);
        return (i) => column.packed[i] === code;
      });
    const found = [];
    for (let i = 0; i < record.rows; i++) if (tests.every((passes) => passes(i))) found.push(i);
    return found;
  }

  // Make the rows of a record whose values agree with `only`.
  const rows = (record, only) => chosen(record, only).map((i) => new record.Row(i));

  const idsOf = (record, i) => record.keys.map((c) => value(record.data[c.name], i) ?? "").join("~");

  // Return the key of a row in addresses: its ids, with a number where rows before it have the same.
  function keyOf(record, row) {
    const own = idsOf(record, row);
    let times = 1;
    for (let i = 0; i < row; i++) if (idsOf(record, i) === own) times++;
    return times > 1 ? `${own}~${times}` : own;
  }

  // Return the number of the row with a key; null if there is none.
  function rowOf(record, key) {
    const times = new Map();
    for (let i = 0; i < record.rows; i++) {
      const own = idsOf(record, i);
      if (!key.startsWith(own)) continue;
      times.set(own, (times.get(own) ?? 0) + 1);
      const suffix = times.get(own) > 1 ? `~${times.get(own)}` : "";
      if (own + suffix === key) return i;
    }
    return null;
  }

  function grouped(x, digits = 0) {
    const text = Math.abs(x).toLocaleString("en-US", {
      minimumFractionDigits: digits, maximumFractionDigits: digits,
    });
    return x < 0 ? `−${text}` : text;
  }

  // Format a value as its kind of column is shown; numbers with so many digits after the point if given.
  function shown(kind, x, digits) {
    if (x === null || x === undefined || x === "") return DASH;
    if (typeof x === "string") return x;
    if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
    switch (kind) {
      case "count": return x < 0 ? `<${grouped(-x)}` : grouped(x);
      case "bounded": return x < 0 ? `<${shown("number", -x, digits)}` : shown("number", x, digits);
      case "whole": return grouped(Math.round(x));
      case "ratio": return grouped(x, x >= 100 ? 0 : 2);
      case "p": return x < 0.001 ? "<0.001" : x.toFixed(3);
      case "difference": return grouped(x, 3);
      case "share": return `${grouped(100 * x, 2)}%`;
      case "id": return String(x);
      default: {
        if (Math.abs(x) >= 1000) return grouped(Math.round(x));
        if (digits !== undefined && Math.abs(x) <= 1) return grouped(x, digits);
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

  return { load, rows, chosen, plain, keyOf, rowOf, rowValue, shown, sortable, test, csv, safeCell, NUMERIC, DASH };
})();
