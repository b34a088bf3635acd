# expect: spec/syntax
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      lifecycle { hook = "prestart" sidecar = true }
    }
  }
}
