(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "run") (param i32 i32) (result i32) i32.const 0)
    (func (export "post") (param i32) (loop $l (br $l))))
  (core instance $i (instantiate $m))

  (type $result (result string (error string)))
  (func $run (param "input" string) (result $result)
    (canon lift (core func $i "run") (memory $i "memory") (realloc (func $i "realloc")) (post-return (func $i "post"))))
  (component $made
    (import "f" (func $f (param "input" string) (result (result string (error string)))))
    (export "run" (func $f)))
  (instance $exported (instantiate $made (with "f" (func $run))))
  (export "pie:post-return-loops/run" (instance $exported)))
