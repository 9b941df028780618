// Many files in one buffer, the same in Node and in workerd: a 4 byte little-endian length,
// that many bytes of JSON [[name, size], ...], then the files' bytes.

/** `files` is a list of [name, Uint8Array]. */
export function writeArchive(files) {
  const index = new TextEncoder().encode(JSON.stringify(files.map(([name, bytes]) => [name, bytes.length])));
  const size = files.reduce((total, [, bytes]) => total + bytes.length, 4 + index.length);
  const archive = new Uint8Array(size);
  new DataView(archive.buffer).setUint32(0, index.length, true);
  archive.set(index, 4);
  let offset = 4 + index.length;
  for (const [, bytes] of files) {
    archive.set(bytes, offset);
    offset += bytes.length;
  }
  return archive;
}

/** The files as [name, Uint8Array], each with bytes of its own. */
export function readArchive(buffer) {
  const bytes = new Uint8Array(buffer);
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  let offset = 4 + length;
  return JSON.parse(new TextDecoder().decode(bytes.subarray(4, offset))).map(([name, size]) => {
    offset += size;
    return [name, bytes.slice(offset - size, offset)];
  });
}
