; tile 64, entry 0x5c000

.org 0x5c000  ; boot
  sync 2
  setzi $m8, 1600
  put 160, $m8
  put 167, $m15
  setzi $m8, 360672
  put 33, $m8
  setzi $m8, 360928
  put 34, $m8
  setzi $m8, 361184
  put 35, $m8
  setzi $m8, 361440
  put 36, $m8
  setzi $m8, 361696
  put 37, $m8
  setzi $m8, 361952
  put 38, $m8
  setzi $m11, 362208
  runall $m0, $m15
  sync 2
  setzi $m8, 1536
  put 160, $m8
  sync 7
  setzi $m8, 1600
  put 160, $m8
  setzi $m0, 392368                        ; program
  br $m0

.org 0x5c068  ; complete
  setzi $m0, 360448
  setzi $m1, 1
  st32 $m1, $m0, $m15, 0
  bri 0x0

.org 0x5c178  ; patch_row
  .word 0x314b5754
  .word 0x00010002
  .word 0x00000100
  .zero 244

.org 0x64000  ; row of phases 4, 5, 22, 32, 38, 42, 53, 54 and 2 more
  br $m10

.org 0x64008  ; row of phase 0
  delayxpic 1, 0, 0x0
  delaypic 54, 0, 0x14000
  delayxpic 74, 0, 0x640
  delay 59
  br $m10

.org 0x64020  ; row of phase 1
  delayxpic 31, 0, 0x4c0
  delaypic 54, 0, 0x20000
  delaypic 128, 0, 0x20100
  delaypic 128, 0, 0x20200
  delayxpic 74, 0, 0x4c2
  delay 27
  send 26, 0x16938, 3
  sendpic 64, 2, 0x20080
  sendoff 64, 0x0, 3
  sendpic 64, 2, 0x20180
  sendoff 64, 0x0, 3
  sendpic 64, 2, 0x20280
  sendoff 10, 0x0, 3
  sendpic 28, 0, 0x640
  delay 32
  br $m10

.org 0x64060  ; row of phase 2
  delayxpic 1, 0, 0xc0
  delayxpic 16, 0, 0x0
  delayxpic 16, 0, 0x1c2
  send 8, 0x20300, 1
  send 7, 0x20310, 1
  sendpic 1, 0, 0x42
  delaypic 6, 0, 0x14020
  delay 3
  send 6, 0x20348, 1
  sendpic 2, 0, 0x240
  send 4, 0x20358, 1
  sendpic 4, 2, 0x14000
  delayxpic 7, 0, 0x102
  delay 2
  send 3, 0x20340, 1
  sendpic 5, 2, 0x14050
  send 5, 0x20350, 1
  sendpic 3, 0, 0x300
  delaypic 4, 0, 0x14010
  delay 4
  send 5, 0x20308, 1
  sendpic 3, 0, 0x180
  send 3, 0x20318, 1
  sendpic 5, 2, 0x14060
  delayxpic 6, 0, 0x342
  delaypic 6, 0, 0x14030
  delay 5
  send 4, 0x20328, 1
  sendpic 4, 0, 0x282
  send 2, 0x20338, 1
  sendpic 6, 2, 0x14080
  delayxpic 5, 0, 0x640
  send 5, 0x20320, 1
  sendpic 3, 2, 0x14040
  send 8, 0x20330, 1
  delaypic 6, 0, 0x14090
  delaypic 16, 0, 0x14070
  delay 21
  br $m10

.org 0x64100  ; row of phases 3, 21, 37, 52, 58, 63
  delay 43
  send 16, 0x20000, 1
  br $m10

.org 0x64110  ; row of phase 6
  delayxpic 214, 0, 0x0
  delaypic 54, 0, 0x14000
  delayxpic 18, 0, 0x640
  delayxpic 72, 0, 0x80
  delayxpic 72, 0, 0x82
  delaypic 18, 0, 0x14090
  delaypic 36, 0, 0x1406c
  delayxpic 18, 0, 0x640
  delaypic 18, 0, 0x140b4
  delay 41
  br $m10

.org 0x64140  ; row of phase 7
  delayxpic 25, 0, 0x0
  delay 46
  send 7, 0x140d8, 3
  sendpic 18, 2, 0x15000
  sendpic 47, 0, 0x2
  delaypic 8, 0, 0x15050
  delayxpic 18, 0, 0x80
  delaypic 54, 0, 0x150a0
  delayxpic 18, 0, 0x82
  delaypic 54, 0, 0x150f0
  delayxpic 18, 0, 0x640
  delay 59
  br $m10

.org 0x64178  ; row of phase 8
  delayxpic 26, 0, 0x80
  delay 29
  send 24, 0x161b8, 3
  sendpic 64, 2, 0x20000
  sendoff 266, 0x0, 3
  sendpic 30, 0, 0x82
  delayxpic 227, 0, 0x640
  delay 59
  br $m10

.org 0x641a0  ; row of phases 9, 26, 41
  delay 59
  send 32, 0x20280, 1
  br $m10

.org 0x641b0  ; row of phase 31
  delay 59
  send 32, 0x20000, 1
  br $m10

.org 0x641c0  ; row of phase 10
  delay 81
  send 54, 0x1a100, 1
  br $m10

.org 0x64020  ; row of phase 1
  delayxpic 31, 0, 0x4c0
  delaypic 54, 0, 0x20000
  delaypic 128, 0, 0x20100
  delaypic 128, 0, 0x20200
  delayxpic 74, 0, 0x4c2
  delay 27
  send 26, 0x16938, 3
  sendpic 64, 2, 0x20080
  sendoff 64, 0x0, 3
  sendpic 64, 2, 0x20180
  sendoff 64, 0x0, 3
  sendpic 64, 2, 0x20280
  sendoff 10, 0x0, 3
  sendpic 28, 0, 0x640
  delay 32
  br $m10
