# expect: spec/duplicate-field
job "x" {
  group "g" {
    count = 1
    count = 2
    task "t" {
      driver = "exec"
    }
  }
}
