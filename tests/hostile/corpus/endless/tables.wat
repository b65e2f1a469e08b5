(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (table 100000 funcref)
    (table 100000 funcref)
    (table 100000 funcref)
    (func $s (loop $l (table.fill 0 (i32.const 0) (ref.null func) (i32.const 100000)) (table.fill 1 (i32.const 0) (ref.null func) (i32.const 100000)) (br $l)))
    (start $s)
    (func (export "run") (param i32 i32) (result i32) i32.const 0))
  (core instance $i (instantiate $m))

  (type $result (result string (error string)))
  (func $run (param "input" string) (result $result)
    (canon lift (core func $i "run") (memory $i "memory") (realloc (func $i "realloc"))))
  (component $made
    (import "f" (func $f (param "input" string) (result (result string (error string)))))
    (export "run" (func $f)))
  (instance $exported (instantiate $made (with "f" (func $run))))
  (export "pie:tables/run" (instance $exported)))
