import { isHit } from './filters.ts'
import type { requestLogs } from './table.ts'

/** A request as a list shows it (wire.md). */
export function shownRequest(row: typeof requestLogs.$inferSelect, application: { id: string; name: string }) {
  const { servedBy, deploymentId } = row
  return {
    id: row.id,
    application: { id: application.id, name: application.name },
    deployment: deploymentId === null ? null : { id: deploymentId, status: servedBy.deploymentStatus ?? 'ACTIVE' },
    deploymentFunction: servedBy.deploymentFunction ?? null,
    deploymentAsset: servedBy.deploymentAsset ?? null,
    storageBucket: servedBy.storageBucket ?? null,
    storageObject: servedBy.storageObject ?? null,
    request: {
      method: row.method,
      hostname: row.hostname,
      path: row.path,
      query: row.query,
      protocol: row.protocol,
      country: row.country,
      userAgent: row.userAgent,
      referer: row.referer,
    },
    response: {
      status: row.status,
      cacheStatus: row.cacheStatus,
      cacheHit: isHit(row.cacheStatus),
      region: row.region,
      edgeLocation: row.edgeLocation,
    },
    metrics: {
      requestBodyBytes: row.requestBodyBytes,
      responseBodyBytes: row.responseBodyBytes,
      bytesSent: row.bytesSent,
      durationMs: row.durationMs,
    },
    startedAt: new Date(row.completedAt.getTime() - row.durationMs),
    completedAt: row.completedAt,
  }
}

export type ShownRequest = ReturnType<typeof shownRequest>
