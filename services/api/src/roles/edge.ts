import type { Listening } from '@platform/service/http-server'
import { type EdgeAddress, listenerOn, type Running } from '../area.ts'

/** Serves hostnames on a port of their own, and the other edges on another. */
export const startEdge = (running: Running, address: EdgeAddress): Promise<Listening> =>
  listenerOn(running, 'hostnames').start(address)
