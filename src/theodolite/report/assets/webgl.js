// Whether many points can be drawn through WebGL, which follows a slider five times as fast as SVG.
(() => {
  let known = null;

  // The context that was asked for is given back: a page has only a few.
  theodolite.hasWebgl = () => {
    if (known === null) {
      const context = document.createElement("canvas").getContext("webgl");
      known = Boolean(context);
      context?.getExtension("WEBGL_lose_context")?.loseContext();
    }
    return known;
  };
})();
