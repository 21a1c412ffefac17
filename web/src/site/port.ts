/** A saved page has no server to stream from. */
export const openPort = () => () => {};
