declare module 'vitest' {
  interface TaskMeta {
    /** CPU time of a test, its child processes included. */
    cpuMs?: number
    /** Why a test or a group of tests is left out on this machine. */
    reason?: string
  }
}

/**
 * Options of a describe or test that needs something the machine may lack: with a reason it is left out, and the summary of the run
 * prints the reason. A case that does not apply is not registered in the first place.
 */
export const unless = (reason: string | undefined): { skip: boolean; meta: { reason?: string } } => ({
  skip: reason !== undefined,
  meta: reason === undefined ? {} : { reason },
})
