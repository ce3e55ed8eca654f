/*
 * Web workers for pages that are opened as files: browsers refuse a Worker there, and the search of the site runs in one.
 * The script runs in a hidden frame instead, with the part of the interface that the search uses.
 */
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      this.ready = new Promise((resolve) => {
        inner.postMessage = (data) => this.deliver(data);
        inner.importScripts = (...urls) =>
          urls.reduce(
            (before, one) => before.then(() => new Promise((done, failed) => {
              const script = inner.document.createElement("script");
              script.src = one;
              script.onload = done;
              script.onerror = failed;
              inner.document.body.appendChild(script);
            })),
            Promise.resolve(),
          );
        const script = inner.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        inner.document.body.appendChild(script);
      });
    }

    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) {
        this.onmessage(event);
      }
    }

    postMessage(data) {
      // In the order of the calls, and none before the script has run.
      this.ready = this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
