// Follows a job's events until its end, reconnecting as needed. Never misses or repeats a lasting
// event: it always requests the events after the last one that it delivered. Does not interpret
// events.

import { address } from "./api.js";

const INITIAL_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;
/** A hidden page closes its connection, because browsers allow only few per server. */
const HIDDEN_CLOSE_MS = 20_000;

/**
 * @param {string} id of the job
 * @param {object} listener
 * @param {() => number} listener.lastSeq of the last lasting event that was taken
 * @param {() => void} listener.opened the stream begins anew: fleeting events will come again
 * @param {(event: object) => void} listener.event
 * @param {(job: object) => void} listener.job
 * @param {(state: "connecting"|"open"|"lost"|"ended", wait?: number) => void} listener.connection
 * @param {() => void} [listener.refused] the stream cannot be had; the job may be gone
 */
export function follow(id, listener) {
  let source = null;
  let timer = null;
  let hideTimer = null;
  let wait = INITIAL_DELAY_MS;
  let isOver = false;
  let isStopped = false;

  function open() {
    close();
    if (isStopped) return;
    isOver = false;
    listener.connection("connecting");
    source = new EventSource(address.events(id, listener.lastSeq()));
    source.addEventListener("open", () => {
      wait = INITIAL_DELAY_MS;
      listener.opened();
      listener.connection("open");
    });
    source.addEventListener("job", (message) => listener.job(JSON.parse(message.data)));
    source.addEventListener("agent", (message) => listener.event(JSON.parse(message.data)));
    source.addEventListener("end", () => {
      isOver = true;
      close();
      listener.connection("ended");
    });
    source.addEventListener("error", lost);
  }

  function lost() {
    if (isOver || !source) return;
    if (source.readyState === EventSource.CONNECTING) {
      // The browser reconnects by itself, with the last id.
      listener.connection("lost");
      return;
    }
    close();
    listener.connection("lost", wait);
    listener.refused?.();
    timer = setTimeout(open, wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, MAX_DELAY_MS);
  }

  function close() {
    clearTimeout(timer);
    timer = null;
    source?.close();
    source = null;
  }

  function onVisibilityChange() {
    clearTimeout(hideTimer);
    if (document.hidden) hideTimer = setTimeout(close, HIDDEN_CLOSE_MS);
    else if (!source && !isOver && !isStopped) open();
  }

  const online = () => {
    if (!isOver && source?.readyState !== EventSource.OPEN) open();
  };

  document.addEventListener("visibilitychange", onVisibilityChange);
  window.addEventListener("online", online);
  open();

  return {
    /** Follows again after an end, when the job was resumed. */
    resume() {
      if (isOver && !isStopped) open();
    },
    stop() {
      isStopped = true;
      clearTimeout(hideTimer);
      document.removeEventListener("visibilitychange", onVisibilityChange);
      window.removeEventListener("online", online);
      close();
    },
  };
}
