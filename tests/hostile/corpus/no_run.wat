(component
  (component $nothing)
  (instance $empty (instantiate $nothing))
  (export "pie:other/thing" (instance $empty)))
