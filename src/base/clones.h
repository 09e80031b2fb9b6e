// Function attribute of hot loops that the compiler vectorises: one clone per instruction set, chosen at load
// time. Without contraction (-ffp-contract=off) all clones give the same bits. Sanitizers cannot run the
// resolvers, so sanitized builds keep the plain version.
#pragma once

#if defined(TW_SANITIZED) || !defined(__x86_64__)
#define TW_CLONES
#else
#define TW_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
