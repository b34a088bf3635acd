# expect: job/incomplete
job "empty" {
}
