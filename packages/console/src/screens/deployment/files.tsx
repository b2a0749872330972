import { type Deployment, listDeploymentFiles } from '@platform/sdk'
import { Empty } from '../../parts/notice.tsx'
import { ofApplication } from '../../platform/deployments.ts'
import { bytes } from '../../words.ts'
import { PartTable } from './part-table.tsx'

/** What it serves as files. */
export default function Files({ deployment: { id, applicationId } }: { deployment: Deployment }) {
  return (
    <PartTable
      queryKey={[...ofApplication(applicationId), 'files', id]}
      read={(cursor) => (platform, options) => listDeploymentFiles(platform, { id, limit: 100, ...cursor }, options)}
      one="file"
      columns={[{ word: 'Path' }, { word: 'Type' }, { word: 'Size', isFigure: true }]}
      empty={<Empty>It serves no files: they appear once it is active, and a site of Functions alone has none.</Empty>}
      row={({ path, type, bytes: size }) => (
        <>
          <td class="font-mono text-note break-all max-sm:basis-full">{path}</td>
          <td class="break-all text-soft">{type}</td>
          <td class="figure">{bytes(size)}</td>
        </>
      )}
    />
  )
}
