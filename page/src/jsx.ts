// What the bundler turns JSX into.
export { Fragment, h } from "preact";
