import { join } from 'node:path'
import { quote } from './run-program.ts'

/** Where `ip netns` keeps named network namespaces, as files for `nsenter --net`. */
export const NAMESPACES = '/run/netns'

/** How a hub reaches what this process reaches: `pasta`, a program, or `veth`, a link and rules in the process's own namespace. */
export type NetworkKind = 'pasta' | 'veth'

/** Joins one hub with the network of this process. */
export interface Carrier {
  /**
   * Gives the hub's namespace the interface OUTSIDE, with an address and a default route. Throws if it cannot.
   *
   * hub: the name of a namespace, whose rules are in force. onEnd: called once, with a reason, if the interface goes before `close`.
   * Returns the interface's MTU in bytes: with a larger one on the links behind it, packets would be split.
   */
  open(hub: string, onEnd: (reason: string) => void): Promise<number>
  /** Removes what `open` made outside of the hub's namespace. Safe to repeat. */
  close(): Promise<void>
}

/**
 * Begins a shell command that runs in a network namespace, by its name. `ip -netns` would mount another /sys, which the kernel refuses
 * in a user namespace: there a file system like that has to be visible already, and `ip` unmounts the one that is.
 */
export const inNamespace = (name: string): string => `nsenter --net=${quote(join(NAMESPACES, name))}`
