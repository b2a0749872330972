import { type Deployment, listDeploymentFunctions } from '@platform/sdk'
import { Empty } from '../../parts/notice.tsx'
import { ofApplication } from '../../platform/deployments.ts'
import { bytes, number } from '../../words.ts'
import { PartTable } from './part-table.tsx'

const kinds = { handler: 'Handler', edge: 'Edge', worker: 'Worker', server: 'Server' } as const

/** What it runs for a request. */
export default function Functions({ deployment: { id, applicationId } }: { deployment: Deployment }) {
  return (
    <PartTable
      queryKey={[...ofApplication(applicationId), 'functions', id]}
      read={(cursor) => (platform, options) =>
        listDeploymentFunctions(platform, { id, limit: 100, ...cursor }, options)
      }
      one="Function"
      columns={[
        { word: 'Function' },
        { word: 'Kind' },
        { word: 'Running', isFigure: true },
        { word: 'Memory', isFigure: true },
        { word: 'Cold starts', isFigure: true },
        { word: 'Requests', isFigure: true },
      ]}
      empty={<Empty>It has no Functions: all that it serves are files.</Empty>}
      row={({ path, kind, slots, memoryBytes, coldStarts, requests }) => (
        <>
          <td class="font-mono text-note break-all max-sm:basis-full">{path}</td>
          <td>{kinds[kind]}</td>
          <td class="figure" data-label="Running">
            {number(slots)}
          </td>
          <td class="figure" data-label="Memory">
            {slots === 0 ? '–' : bytes(memoryBytes)}
          </td>
          <td class="figure" data-label="Cold starts">
            {number(coldStarts)}
          </td>
          <td class="figure" data-label="Requests">
            {number(requests)}
          </td>
        </>
      )}
    />
  )
}
