(component
  (component $nothing)
  (instance $empty (instantiate $nothing))
  (export "pie:broken/run" (instance $empty)))
