/* The search runs in a web worker, and browsers start none for pages opened from disk (file:).
   There, this class takes the worker's place: it runs the same script in a hidden frame. The theme looks for its name. */
if (location.protocol === "file:") {
  window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inner = this.frame.contentWindow
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise((resolve, reject) => {
        const script = inner.document.createElement("script")
        script.onload = resolve
        script.onerror = () => reject(new Error(`${url} cannot be loaded`))
        script.src = url
        inner.document.body.appendChild(script)
      })
    }

    postMessage(data) {
      const inner = this.frame.contentWindow
      this.ready.then(() => inner.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
