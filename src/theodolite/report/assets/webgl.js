// Whether the browser has WebGL, which draws many points five times as fast as SVG.
(() => {
  let known = null;

  // Release the context after the test, because a page can have only a few.
  theodolite.hasWebgl = () => {
    if (known === null) {
      const context = document.createElement("canvas").getContext("webgl");
      known = Boolean(context);
      context?.getExtension("WEBGL_lose_context")?.loseContext();
    }
    return known;
  };
})();
