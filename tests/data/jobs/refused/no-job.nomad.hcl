# expect: job/none
