# expect: job/incomplete
job "empty" {
  group "g" {
  }
}
