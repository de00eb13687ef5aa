// Search from disk. A browser starts no worker from file://, so there the worker's script runs in a hidden frame that
// answers to the same messages. Over http the browser's own workers are left alone.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.documentElement.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
      this.ready = this.load(String(url));
    }
    load(url) {
      return new Promise((done, failed) => {
        const inside = this.frame.contentDocument;
        const script = inside.createElement("script");
        Object.assign(script, { src: url, onload: done, onerror: failed });
        inside.body.appendChild(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = IFrameWorker; // the search script looks for this name to find its own folder
  window.Worker = IFrameWorker;
}
