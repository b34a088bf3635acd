# expect: job/incomplete
job "x" {
  group "g" {
    task "t" {
    }
  }
}
