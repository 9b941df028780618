// The cell's own Worker: the control API, and the services behind the other Workers' bindings.
export { default } from "./control.mjs";
export { Ai } from "./ai.mjs";
export { D1 } from "./d1.mjs";
export { Queue } from "./queue.mjs";
export { Vectorize } from "./vectorize.mjs";
