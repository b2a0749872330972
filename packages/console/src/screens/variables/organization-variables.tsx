import { ClipboardPaste, Plus } from 'lucide-preact'
import { useLocation } from 'preact-iso'
import { useState } from 'preact/hooks'
import { useLine } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Empty, Wrong } from '../../parts/notice.tsx'
import { Page } from '../../parts/page.tsx'
import { Loaded, Panel } from '../../parts/panel.tsx'
import { pathOf, useAdminObstacle, useApplications } from '../../platform/places.ts'
import { useAddress } from '../../platform/query.ts'
import { useOrganization } from '../../platform/surroundings.ts'
import { counted } from '../../words.ts'
import { InOrganization } from '../place.tsx'
import { useCloseForm } from './close-form.ts'
import { mergeLayers } from './layers.ts'
import { listLine } from './lines.ts'
import { NextDeployment } from './next-deployment.tsx'
import { PasteForm } from './paste-form.tsx'
import { useVariables, useVariableStore } from './store.ts'
import { VariableForm } from './variable-form.tsx'
import { VariableTable } from './variable-table.tsx'

export default function OrganizationVariablesScreen({ organization }: { organization: string }) {
  return (
    <InOrganization slug={organization}>
      <OrganizationVariables key={organization} />
    </InOrganization>
  )
}

function OrganizationVariables() {
  const organization = useOrganization()
  const slug = useApplications(organization.id).data?.[0]?.slug
  const place = {
    organization,
    application: undefined,
    path: slug === undefined ? undefined : `${organization.slug}/${slug}`,
  }
  const { query, route } = useLocation()
  const address = useAddress()
  useLine(listLine(place))
  const obstacle = useAdminObstacle(organization.id)
  const [changes, setChanges] = useState(0)
  const store = useVariableStore(place)
  const answer = useVariables(place)
  const isOpen = 'new' in query || 'paste' in query
  const obstacleOf = (): string | undefined => obstacle
  const close = useCloseForm()
  const onChanged = (): void => setChanges((before) => before + 1)
  const forms = { store, obstacleOf, onClose: close, onChanged, layers: ['organization'] as const }
  const paste = (): void => route(address({ paste: '', new: undefined }))
  return (
    <Page
      title="Variables of the organization"
      action={
        <>
          <Button id="paste" reason={obstacle} onClick={paste}>
            <ClipboardPaste size={16} strokeWidth={1.5} aria-hidden="true" /> Paste a .env
          </Button>
          <Button
            id="new-variable"
            kind={isOpen ? 'quiet' : 'main'}
            reason={obstacle}
            onClick={() => route(address({ new: '', paste: undefined }))}
          >
            <Plus size={16} strokeWidth={1.5} aria-hidden="true" /> New variable
          </Button>
        </>
      }
    >
      {obstacle !== undefined && (
        <Wrong>You may read these variables. Only owners and administrators of the organization may change them.</Wrong>
      )}
      <NextDeployment isShown={changes > 0} href={pathOf(organization.slug)} verb="Choose an application" isOfAll />
      {'new' in query && (
        <Panel title="New variable">
          <VariableForm {...forms} />
        </Panel>
      )}
      {'paste' in query && answer.data && (
        <Panel title="Paste a .env">
          <PasteForm {...forms} place={place} initialLayer="organization" />
        </Panel>
      )}
      <Panel title={answer.data ? counted(answer.data.length, 'variable') : 'All variables'} at={answer.dataUpdatedAt}>
        <Loaded answer={answer} rows={8}>
          {(variables) =>
            variables.length === 0 ? (
              <Empty
                action={
                  <Button kind="main" reason={obstacle} onClick={paste}>
                    Paste a .env
                  </Button>
                }
              >
                The organization has no variables. What is here reaches every application, unless the application or its
                environment has one of the same name.
              </Empty>
            ) : (
              <VariableTable
                merged={mergeLayers(variables, 'organization')}
                store={store}
                obstacleOf={obstacleOf}
                onChanged={onChanged}
                isOneLayer
              />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  )
}
