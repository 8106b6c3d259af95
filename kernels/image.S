/* The fat binary that nvcc made, as read-only data. */
    .section .rodata.nccl_check_kernels, "a", %progbits
    .balign 64
    .globl nccl_check_kernels_begin
    .hidden nccl_check_kernels_begin
    .type nccl_check_kernels_begin, %object
nccl_check_kernels_begin:
    .incbin NCCL_CHECK_FATBIN
    .globl nccl_check_kernels_end
    .hidden nccl_check_kernels_end
nccl_check_kernels_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
