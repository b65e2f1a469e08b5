(component
  (core module $m (func (export "run") (result i32) i32.const 7))
  (core instance $i (instantiate $m))
  (func $run (result u32) (canon lift (core func $i "run")))
  (component $made
    (import "f" (func $f (result u32)))
    (export "run" (func $f)))
  (instance $exported (instantiate $made (with "f" (func $run))))
  (export "pie:broken/run" (instance $exported)))
